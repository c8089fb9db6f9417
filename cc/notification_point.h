// The notification point: how often a QP tells the sender of marked packets to slow down.
#pragma once

#include "stack/base/types.h"

namespace roci {

/// One for each QP that receives. A mark within the interval is forgotten, and unmarked packets mean nothing (DCQCN,
/// Zhu et al., SIGCOMM 2015, section 3.1). Owner: worker.
class NotificationPoint {
 public:
  explicit NotificationPoint(Duration interval) : interval_(interval) {}

  /// A packet came with CE. True: a CNP is to be sent now. An interval of 0 sends one for each mark.
  bool on_marked(Instant now) {
    if (now < next_) return false;
    next_ = now + interval_;
    return true;
  }

 private:
  const Duration interval_;
  Instant next_{INT64_MIN};
};

}  // namespace roci
