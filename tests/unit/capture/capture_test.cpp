// Captures, read back by libpcap, which nobody here wrote.
#include "drivers/capture/capture.h"

#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/wire_pair.h"

namespace roci {
namespace {

struct CaptureTest : ::testing::Test {
  CaptureTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "roci-capture-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~CaptureTest() override { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
};

std::vector<std::vector<std::uint8_t>> read_back(const std::filesystem::path& file) {
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  pcap_t* pcap = pcap_open_offline_with_tstamp_precision(file.c_str(), PCAP_TSTAMP_PRECISION_NANO, error.data());
  EXPECT_NE(pcap, nullptr) << error.data();
  std::vector<std::vector<std::uint8_t>> frames;
  if (pcap == nullptr) return frames;
  EXPECT_EQ(pcap_datalink(pcap), DLT_EN10MB);
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  while (pcap_next_ex(pcap, &header, &data) == 1) {
    EXPECT_EQ(header->caplen, header->len);
    EXPECT_GT(header->ts.tv_sec, 1'600'000'000);
    frames.emplace_back(data, data + header->caplen);
  }
  pcap_close(pcap);
  return frames;
}

TEST_F(CaptureTest, both_directions_are_in_the_file_byte_for_byte) {
  const std::filesystem::path file = folder / "x.pcapng";
  {
    auto inner = std::make_unique<test::TestPort>(0);
    test::TestPort* wire = inner.get();
    std::string error;
    auto port = CapturePort::open(std::move(inner), "roci0", file, &error);
    ASSERT_NE(port, nullptr) << error;
    wire->arrived.push_back(test::Frame(60, std::byte{0x11}));
    wire->arrived.push_back(test::Frame(4154, std::byte{0x22}));
    port->begin_turn({}, TurnReason::kPoll);
    std::array<RxFrame, 8> frames;
    EXPECT_EQ(port->rx_burst(frames), 2u);
    port->rx_release();
    Route* route = port->acquire_route(IpAddress::v4(0xc6120002), Qpn{});
    std::array<TxSlot, 2> slots;
    ASSERT_EQ(port->tx_reserve(*route, slots), 2u);
    std::memset(slots[0].data, 0x33, 100);
    const std::uint32_t bytes = 99;
    port->tx_commit(*route, {&bytes, 1});
    port->end_turn({});
    EXPECT_EQ(wire->sent.size(), 1u);
  }
  const auto frames = read_back(file);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0], std::vector<std::uint8_t>(60, 0x11));
  EXPECT_EQ(frames[1], std::vector<std::uint8_t>(4154, 0x22));
  EXPECT_EQ(frames[2], std::vector<std::uint8_t>(99, 0x33));
}

TEST_F(CaptureTest, file_that_another_process_captures_to_is_left_alone) {
  const std::filesystem::path file = folder / "x.pcapng";
  std::string error;
  auto first = PcapngWriter::open(file, "roci0", &error);
  ASSERT_NE(first, nullptr) << error;
  const pid_t child = fork();
  if (child == 0) {
    std::string reason;
    auto second = PcapngWriter::open(file, "roci0", &reason);
    _exit(second != nullptr && second->path() == folder / ("x." + std::to_string(getpid()) + ".pcapng") ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(CaptureTest, percent_p_is_the_process_id) {
  std::string error;
  auto writer = PcapngWriter::open(folder / "a.%p.pcapng", "roci0", &error);
  ASSERT_NE(writer, nullptr) << error;
  EXPECT_EQ(writer->path(), folder / ("a." + std::to_string(getpid()) + ".pcapng"));
}

TEST_F(CaptureTest, open__folder_that_is_not_there_is_an_error_that_names_it) {
  std::string error;
  EXPECT_EQ(PcapngWriter::open(folder / "none" / "x.pcapng", "roci0", &error), nullptr);
  EXPECT_NE(error.find("none/x.pcapng"), std::string::npos) << error;
}

TEST(FrameRing, full_ring_refuses_and_what_it_took_comes_out_whole) {
  FrameRing ring;
  std::vector<std::byte> frame(kMaxFrameBytes);
  std::uint64_t pushed = 0;
  std::uint64_t popped = 0;
  std::vector<std::byte> out(kMaxFrameBytes);
  for (int lap = 0; lap < 2; ++lap) {
    for (;; ++pushed) {
      std::memset(frame.data(), static_cast<int>(pushed & 0xff), frame.size());
      const auto bytes = static_cast<std::uint32_t>(60 + pushed % (kMaxFrameBytes - 60));
      if (!ring.push({.wall_ns = pushed, .bytes = bytes, .direction = CaptureDirection::kInbound}, frame.data())) break;
    }
    EXPECT_GT(pushed - popped, FrameRing::kBytes / (kMaxFrameBytes + 64));
    for (CapturedFrame header; popped < pushed; ++popped) {
      ASSERT_TRUE(ring.pop(&header, out));
      ASSERT_EQ(header.wall_ns, popped);
      ASSERT_EQ(header.bytes, 60 + popped % (kMaxFrameBytes - 60));
      ASSERT_EQ(out[0], static_cast<std::byte>(popped & 0xff));
      ASSERT_EQ(out[header.bytes - 1], static_cast<std::byte>(popped & 0xff));
    }
  }
  CapturedFrame header;
  EXPECT_FALSE(ring.pop(&header, out));
}

}  // namespace
}  // namespace roci
