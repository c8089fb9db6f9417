// Random values of every header.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "stack/base/random.h"
#include "stack/wire/headers.h"

namespace roci::test {

/// Draws of the width that is asked for.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  // Not inline: with sanitizers, hundreds of copies of the generator take minutes to compile.
  [[gnu::noinline]] std::uint64_t u64();
  [[gnu::noinline]] std::uint64_t below(std::uint64_t bound);
  std::uint32_t u32() { return static_cast<std::uint32_t>(u64()); }
  std::uint32_t u24() { return u32() & 0xff'ffff; }
  std::uint16_t u16() { return static_cast<std::uint16_t>(u64()); }
  std::uint8_t u8() { return static_cast<std::uint8_t>(u64()); }
  std::uint8_t bits(unsigned width) { return static_cast<std::uint8_t>(below(1u << width)); }
  bool flag() { return below(2) != 0; }
  template <std::size_t kCount>
  std::array<std::uint8_t, kCount> octets() {
    std::array<std::uint8_t, kCount> values;
    fill(values);
    return values;
  }
  std::vector<std::byte> bytes(std::size_t count);
  void fill(std::span<std::uint8_t> values);

 private:
  Random random_;
};

void draw(Draw& from, EthernetHeader& to);
void draw(Draw& from, VlanTag& to);
void draw(Draw& from, Ipv4Header& to);
void draw(Draw& from, Ipv6Header& to);
void draw(Draw& from, UdpHeader& to);
void draw(Draw& from, PfcFrame& to);
void draw(Draw& from, Bth& to);
void draw(Draw& from, Reth& to);
void draw(Draw& from, Aeth& to);
void draw(Draw& from, AtomicEth& to);
void draw(Draw& from, AtomicAckEth& to);
void draw(Draw& from, ImmDt& to);
void draw(Draw& from, Ieth& to);
void draw(Draw& from, Deth& to);
void draw(Draw& from, XrcEth& to);
void draw(Draw& from, CnpReserved& to);

}  // namespace roci::test
