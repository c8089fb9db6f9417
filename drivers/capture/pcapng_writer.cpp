#include "drivers/capture/pcapng_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "stack/engine/port.h"

namespace roci {
namespace {

constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kInterfaceStatistics = 5;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint16_t kLinkTypeEthernet = 1;
constexpr std::size_t kFileBufferBytes = 1 << 20;

/// Option codes; each number has its meaning in its own kind of block.
constexpr std::uint16_t kEndOfOptions = 0;
constexpr std::uint16_t kShbUserApplication = 4;
constexpr std::uint16_t kIfName = 2;
constexpr std::uint16_t kIfTimestampResolution = 9;
constexpr std::uint16_t kEpbFlags = 2;
constexpr std::uint16_t kIsbReceived = 4;
constexpr std::uint16_t kIsbDropped = 5;

/// The body of a block, in the byte order of this machine, which the section header tells.
class Body {
 public:
  template <class T>
  Body& add(T value) {
    return add_bytes(&value, sizeof value);
  }
  Body& add_bytes(const void* data, std::size_t bytes) {
    std::memcpy(bytes_.data() + size_, data, bytes);
    size_ += bytes;
    return *this;
  }
  Body& pad() {
    while (size_ % 4 != 0) bytes_[size_++] = std::byte{};
    return *this;
  }
  Body& add_option(std::uint16_t code, const void* data, std::size_t bytes) {
    add(code).add(static_cast<std::uint16_t>(bytes)).add_bytes(data, bytes);
    return pad();
  }
  Body& end_options() { return add(kEndOfOptions).add(std::uint16_t{0}); }
  Body& add_time(std::uint64_t ns) {
    return add(static_cast<std::uint32_t>(ns >> 32)).add(static_cast<std::uint32_t>(ns));
  }
  std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }
  void clear() { size_ = 0; }

 private:
  /// A frame, and what stands around it: fixed fields, a few options, an interface's name.
  std::array<std::byte, kMaxFrameBytes + 512> bytes_;
  std::size_t size_ = 0;
};

std::string expand_pid(std::string path) {
  for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at))
    path.replace(at, 2, std::to_string(getpid()));
  return path;
}

std::string with_pid_before_extension(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  const std::size_t dot = path.find_last_of('.');
  const bool has_extension = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  const std::size_t at = has_extension ? dot : path.size();
  return path.substr(0, at) + "." + std::to_string(getpid()) + path.substr(at);
}

/// A descriptor of `path` with the lock that a capturing process holds; -1 with errno, EWOULDBLOCK if another has it.
int open_locked(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && ftruncate(fd, 0) == 0) return fd;
  const int reason = errno;
  close(fd);
  errno = reason;
  return -1;
}

}  // namespace

std::unique_ptr<PcapngWriter> PcapngWriter::open(const std::string& wanted, const std::string& interface_name,
                                                 std::string* error) {
  std::string path = expand_pid(wanted);
  int fd = open_locked(path);
  if (fd < 0 && errno == EWOULDBLOCK) {
    path = with_pid_before_extension(path);
    fd = open_locked(path);
  }
  std::FILE* file = fd < 0 ? nullptr : fdopen(fd, "wb");
  if (file == nullptr) {
    *error = path + ": " + std::strerror(errno);
    return nullptr;
  }
  std::setvbuf(file, nullptr, _IOFBF, kFileBufferBytes);
  std::unique_ptr<PcapngWriter> writer(new PcapngWriter(file, path));
  writer->write_header(interface_name);
  if (writer->flush()) return writer;
  *error = path + ": " + std::strerror(errno);
  return nullptr;
}

PcapngWriter::~PcapngWriter() { std::fclose(file_); }

void PcapngWriter::write_block(std::uint32_t type, std::span<const std::byte> body) {
  const auto total = static_cast<std::uint32_t>(body.size() + 12);
  std::fwrite(&type, sizeof type, 1, file_);
  std::fwrite(&total, sizeof total, 1, file_);
  std::fwrite(body.data(), 1, body.size(), file_);
  std::fwrite(&total, sizeof total, 1, file_);
}

void PcapngWriter::write_header(const std::string& interface_name) {
  constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
  constexpr std::uint64_t kUnknownLength = UINT64_MAX;
  constexpr std::string_view kApplication = "Rocinante";
  constexpr std::uint8_t kNanoseconds = 9;
  Body section;
  section.add(kByteOrderMagic).add(std::uint16_t{1}).add(std::uint16_t{0}).add(kUnknownLength);
  section.add_option(kShbUserApplication, kApplication.data(), kApplication.size()).end_options();
  write_block(kSectionHeader, section.bytes());
  Body interface;
  interface.add(kLinkTypeEthernet).add(std::uint16_t{0}).add(std::uint32_t{0});
  interface.add_option(kIfName, interface_name.data(), interface_name.size());
  interface.add_option(kIfTimestampResolution, &kNanoseconds, 1).end_options();
  write_block(kInterfaceDescription, interface.bytes());
}

void PcapngWriter::write_frame(const CapturedFrame& header, std::span<const std::byte> frame) {
  thread_local Body packet;
  const auto bytes = static_cast<std::uint32_t>(frame.size());
  const auto flags = static_cast<std::uint32_t>(header.direction);
  packet.clear();
  packet.add(std::uint32_t{0}).add_time(header.wall_ns).add(bytes).add(header.bytes);
  packet.add_bytes(frame.data(), frame.size()).pad();
  packet.add_option(kEpbFlags, &flags, sizeof flags).end_options();
  write_block(kEnhancedPacket, packet.bytes());
}

void PcapngWriter::write_statistics(std::uint64_t wall_ns, std::uint64_t frames, std::uint64_t dropped) {
  Body statistics;
  statistics.add(std::uint32_t{0}).add_time(wall_ns);
  statistics.add_option(kIsbReceived, &frames, sizeof frames);
  statistics.add_option(kIsbDropped, &dropped, sizeof dropped).end_options();
  write_block(kInterfaceStatistics, statistics.bytes());
}

bool PcapngWriter::flush() { return std::fflush(file_) == 0 && std::ferror(file_) == 0; }

}  // namespace roci
