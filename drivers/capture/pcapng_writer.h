// A pcapng file of one Ethernet interface with nanosecond stamps (draft-ietf-opsawg-pcapng).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "drivers/capture/frame_ring.h"

namespace roci {

class PcapngWriter {
 public:
  /// Opens `path`, in which %p stands for the process id. A file that another process is still capturing to is left
  /// alone: `.PID` is put before the extension instead. Null with errno and `*error` on failure.
  static std::unique_ptr<PcapngWriter> open(const std::string& path, const std::string& interface_name,
                                            std::string* error);
  ~PcapngWriter();
  PcapngWriter(const PcapngWriter&) = delete;
  PcapngWriter& operator=(const PcapngWriter&) = delete;

  const std::string& path() const { return path_; }
  /// `frame` is as much of it as there is, from the start; its length is that of the header.
  void write_frame(const CapturedFrame& header, std::span<const std::byte> frame);
  /// How many frames there were and how many of them are not in the file.
  void write_statistics(std::uint64_t wall_ns, std::uint64_t frames, std::uint64_t dropped);
  /// False once a write has failed; the file then ends at the last whole block that got through.
  bool flush();

 private:
  PcapngWriter(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  void write_header(const std::string& interface_name);
  void write_block(std::uint32_t type, std::span<const std::byte> body);

  std::FILE* file_;
  std::string path_;
};

}  // namespace roci
