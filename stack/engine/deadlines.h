// Deadlines of QPs, earliest first. A QP is in the heap at most once, and only an earlier deadline moves it: a later
// one is noticed when the old one comes. So a packet that pushes a deadline out costs nothing here.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "stack/base/deadline_hook.h"
#include "stack/base/types.h"

namespace roci {

/// Owner: worker. T derives from DeadlineHook.
template <class T>
class DeadlineHeap {
 public:
  /// Makes sure that the heap looks at `item` no later than `at`.
  void arm(T& item, Instant at) {
    if (at >= item.at) return;
    if (item.index == DeadlineHook::kNotQueued) {
      item.index = heap_.size();
      heap_.push_back(&item);
    }
    item.at = at;
    sift_up(item.index);
  }

  Instant earliest() const { return heap_.empty() ? kNever : heap_.front()->at; }

  /// Takes an item whose time has come, or null. The caller arms it again with its true deadline.
  T* take_due(Instant now) {
    if (heap_.empty() || heap_.front()->at > now) return nullptr;
    T* item = heap_.front();
    remove(*item);
    return item;
  }

  void remove(T& item) {
    const std::size_t index = item.index;
    if (index == DeadlineHook::kNotQueued) return;
    T* last = heap_.back();
    heap_.pop_back();
    item.index = DeadlineHook::kNotQueued;
    item.at = kNever;
    if (last == &item) return;
    place(last, index);
    sift_up(index);
    sift_down(last->index);
  }

 private:
  void place(T* item, std::size_t index) {
    heap_[index] = item;
    item->index = index;
  }
  void sift_up(std::size_t index) {
    while (index > 0) {
      const std::size_t parent = (index - 1) / 2;
      if (heap_[parent]->at <= heap_[index]->at) return;
      swap(parent, index);
      index = parent;
    }
  }
  void sift_down(std::size_t index) {
    for (;;) {
      std::size_t least = index;
      for (std::size_t child = 2 * index + 1; child <= 2 * index + 2 && child < heap_.size(); ++child)
        if (heap_[child]->at < heap_[least]->at) least = child;
      if (least == index) return;
      swap(least, index);
      index = least;
    }
  }
  void swap(std::size_t a, std::size_t b) {
    T* item = heap_[a];
    place(heap_[b], a);
    place(item, b);
  }

  std::vector<T*> heap_;
};

}  // namespace roci
