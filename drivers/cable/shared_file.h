// The shared file of a cable: opening, locks and mappings. No other file does system calls on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "drivers/cable/layout.h"

namespace roci::cable {

/// Path of the shared file of the cable `name` of this user.
std::string file_path(const std::string& name);

/// Names of the cables of this user that have a file, in order.
std::vector<std::string> names();

/// POSIX record locks belong to the process and vanish with it, however it ends; they also vanish when the process
/// closes any descriptor of the file, so there must be only one, whose object all ends of the process share. A process
/// does not see its own locks: which ends are its own is written down here.
class SharedFile {
 public:
  SharedFile() = default;
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  /// Opens the cable's file, or makes it, and takes the join lock. False with errno and `*error` on failure.
  bool open_and_lock(const std::string& name, std::string* error);
  /// For readers: opens an existing file without any lock. False if there is none that this version understands.
  bool open_for_reading(const std::string& path);

  void lock_join();
  void unlock_join();
  /// Under the join lock. False if another process has it.
  bool lock_end(std::uint32_t end);
  void unlock_end(std::uint32_t end);
  /// Any thread: true if this process or another is end `end`.
  bool end_is_alive(std::uint32_t end) const;
  bool any_end_is_alive() const;
  void unlink();

  FileHeader& header() const { return *reinterpret_cast<FileHeader*>(base_); }
  EndRecord& end(std::uint32_t index) const {
    return *reinterpret_cast<EndRecord*>(base_ + kDirectoryOffset + index * kEndRecordBytes);
  }
  std::uint64_t* counters(std::uint32_t index) const {
    return reinterpret_cast<std::uint64_t*>(base_ + kCountersOffset + index * kCounterRegionBytes);
  }

  /// Memory of one ring. Null with errno if there is none left.
  std::byte* map_ring(std::uint32_t producer, std::uint32_t consumer, bool reserve);
  static void unmap_ring(std::byte* ring);
  /// Gives the memory of a ring back; it reads as zero afterwards.
  void discard_ring(std::uint32_t producer, std::uint32_t consumer);

 private:
  bool set_lock(short type, std::uint32_t byte, bool wait);
  bool map_head(bool writable);
  bool initialise();
  bool grow();
  void remove_abandoned() const;
  void close();

  int fd_ = -1;
  std::atomic<std::uint64_t> own_ends_{0};  ///< a bit for each
  std::byte* base_ = nullptr;
  std::string path_;
};

}  // namespace roci::cable
