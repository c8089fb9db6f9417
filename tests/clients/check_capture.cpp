// Checks every packet of captures: that it parses as RoCE v2 and that its ICRC is right, or that it is a PFC frame.
#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "stack/wire/icrc.h"
#include "stack/wire/packet.h"

int main(int argc, char** argv) {
  unsigned long right = 0;
  unsigned long wrong = 0;
  for (int i = 1; i < argc; ++i) {
    std::array<char, PCAP_ERRBUF_SIZE> error{};
    pcap_t* pcap = pcap_open_offline(argv[i], error.data());
    if (pcap == nullptr) return std::fprintf(stderr, "%s: %s\n", argv[i], error.data()), 2;
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    for (unsigned long number = 1; pcap_next_ex(pcap, &header, &data) == 1; ++number) {
      const auto* frame = reinterpret_cast<const std::byte*>(data);
      roci::PacketView view;
      const std::size_t copied = std::min<std::size_t>(header->caplen, roci::kHeaderCopyBytes);
      const roci::ParseStatus status = roci::parse_packet({frame, copied}, header->caplen, &view);
      if (status == roci::ParseStatus::kPfc) continue;
      const bool parsed = status == roci::ParseStatus::kOk;
      if (parsed && roci::compute_icrc(frame + view.l3_offset, view.is_v4, view.icrc_offset - view.l3_offset) ==
                        roci::load_icrc(frame + view.icrc_offset)) {
        ++right;
        continue;
      }
      ++wrong;
      std::fprintf(stderr, "%s: packet %lu: %.*s\n", argv[i], number,
                   parsed ? 10 : static_cast<int>(roci::name_of(status).size()),
                   parsed ? "wrong ICRC" : roci::name_of(status).data());
    }
    pcap_close(pcap);
  }
  std::printf("%lu packets right, %lu wrong\n", right, wrong);
  return right > 0 && wrong == 0 ? 0 : 1;
}
