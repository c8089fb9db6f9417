// Which QPs are in which multicast group (IBTA 10.5.2).
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include "stack/wire/address.h"

namespace roci {

class Qp;

/// Few groups with few members: looked for one by one. Owner: whoever holds the baton.
class MulticastGroups {
 public:
  static constexpr std::uint32_t kMaxGroups = 256;
  static constexpr std::uint32_t kMaxMembers = 64;

  /// The QPs of a group, each once.
  std::span<Qp* const> members(const IpAddress& address) const {
    for (const Group& group : groups_)
      if (group.address == address) return group.members;
    return {};
  }

  /// ENOMEM beyond the limits; 0 if the QP is in the group already.
  int attach(const IpAddress& address, Qp& qp) {
    auto group = find(address);
    if (group == groups_.end()) {
      if (groups_.size() == kMaxGroups) return ENOMEM;
      group = groups_.insert(group, {.address = address, .members = {}});
    }
    if (std::find(group->members.begin(), group->members.end(), &qp) != group->members.end()) return 0;
    if (group->members.size() == kMaxMembers) return ENOMEM;
    group->members.push_back(&qp);
    return 0;
  }
  /// EINVAL if the QP is not in the group.
  int detach(const IpAddress& address, Qp& qp) {
    const auto group = find(address);
    if (group == groups_.end() || std::erase(group->members, &qp) == 0) return EINVAL;
    if (group->members.empty()) groups_.erase(group);
    return 0;
  }
  /// Groups that the QP is in.
  std::vector<IpAddress> groups_of(Qp& qp) const {
    std::vector<IpAddress> found;
    for (const Group& group : groups_)
      if (std::find(group.members.begin(), group.members.end(), &qp) != group.members.end())
        found.push_back(group.address);
    return found;
  }

 private:
  struct Group {
    IpAddress address;
    std::vector<Qp*> members;
  };

  std::vector<Group>::iterator find(const IpAddress& address) {
    return std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) { return group.address == address; });
  }

  std::vector<Group> groups_;
};

}  // namespace roci
