// Every limit that a device reports: as much as it says is granted, one more is refused, and what is given back can be
// had again.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/support/wire_pair.h"

namespace roci {
namespace {

constexpr std::uint32_t kMost = 3;

DeviceConfig few_of_each() {
  DeviceConfig config;
  config.limits.max_qp = config.limits.max_cq = config.limits.max_mr = config.limits.max_mw = kMost;
  config.limits.max_pd = config.limits.max_srq = config.limits.max_ah = kMost;
  return config;
}

/// A kind of object, of which the host of the test has `there` already.
struct Kind {
  const char* name;
  std::uint32_t there;
  std::function<int(void**)> make;
  std::function<int(void*)> destroy;
};

TEST(Limits, objects__as_many_as_the_device_says) {
  test::Host host(0, few_of_each());
  Device& device = *host.device;
  const Kind kinds[] = {
      {"PD", 1, [&](void** made) { return device.alloc_pd(reinterpret_cast<Pd**>(made)); },
       [&](void* made) { return device.dealloc_pd(static_cast<Pd*>(made)); }},
      {"CQ", 1, [&](void** made) { return device.create_cq(1, nullptr, reinterpret_cast<Cq**>(made)); },
       [&](void* made) { return device.destroy_cq(static_cast<Cq*>(made)); }},
      {"MR", 1,
       [&](void** made) { return device.reg_mr(host.pd, host.memory.data(), 1, 0, 0, reinterpret_cast<Mr**>(made)); },
       [&](void* made) { return device.dereg_mr(static_cast<Mr*>(made)); }},
      {"MW", 0, [&](void** made) { return device.alloc_mw(host.pd, KeyKind::kWindow1, reinterpret_cast<Mw**>(made)); },
       [&](void* made) { return device.dealloc_mw(static_cast<Mw*>(made)); }},
      {"SRQ", 0,
       [&](void** made) {
         return device.create_srq(host.pd, {.max_wr = 1, .max_sge = 1}, reinterpret_cast<Srq**>(made));
       },
       [&](void* made) { return device.destroy_srq(static_cast<Srq*>(made)); }},
      {"QP", 0,
       [&](void** made) {
         QpInit init{.send_cq = host.cq, .recv_cq = host.cq, .capacity = {.max_send_wr = 1}};
         return device.create_qp(host.pd, init, reinterpret_cast<Qp**>(made));
       },
       [&](void* made) { return device.destroy_qp(static_cast<Qp*>(made)); }},
      {"AH", 0,
       [&](void** made) {
         const AddressVector av{.dgid = host.port.attributes().addresses[0]};
         return device.create_ah(host.pd, av, reinterpret_cast<AddressHandle**>(made));
       },
       [&](void* made) { return device.destroy_ah(static_cast<AddressHandle*>(made)); }},
  };
  for (const Kind& kind : kinds) {
    std::vector<void*> made;
    for (std::uint32_t i = kind.there; i < kMost; ++i) {
      void* one = nullptr;
      ASSERT_EQ(kind.make(&one), 0) << kind.name << " " << i;
      made.push_back(one);
    }
    void* too_many = nullptr;
    EXPECT_EQ(kind.make(&too_many), ENOMEM) << kind.name;
    EXPECT_EQ(too_many, nullptr) << kind.name;
    ASSERT_EQ(kind.destroy(made.back()), 0) << kind.name;
    EXPECT_EQ(kind.make(&made.back()), 0) << kind.name;
    for (void* one : made) EXPECT_EQ(kind.destroy(one), 0) << kind.name;
  }
}

}  // namespace
}  // namespace roci
