#include "drivers/capture/capture.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

namespace roci {
namespace {

constexpr timespec kIdleNap{.tv_sec = 0, .tv_nsec = 20'000'000};
constexpr timespec kBusyNap{.tv_sec = 0, .tv_nsec = 1'000'000};

std::uint64_t wall_clock_ns() {
  timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(ts.tv_nsec);
}

/// Only the worker writes these counters.
void bump(std::atomic<std::uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

std::unique_ptr<Port> CapturePort::open(std::unique_ptr<Port> inner, const std::string& interface_name,
                                        const std::string& path, std::string* error) {
  auto writer = PcapngWriter::open(path, interface_name, error);
  if (writer == nullptr) return nullptr;
  if (writer->path() != path) std::fprintf(stderr, "rocinante: capturing to %s\n", writer->path().c_str());
  std::unique_ptr<CapturePort> port(new CapturePort(std::move(inner), std::move(writer)));
  if (!port->ring_.is_open()) {
    *error = "no memory for frames";
    return nullptr;
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&port->thread_, nullptr, thread_main, port.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    *error = std::string("no thread: ") + std::strerror(failed);
    port->thread_ = {};
    return nullptr;
  }
  pthread_setname_np(port->thread_, "roci-capture");
  return port;
}

CapturePort::CapturePort(std::unique_ptr<Port> inner, std::unique_ptr<PcapngWriter> writer)
    : PortDecorator(std::move(inner)), writer_(std::move(writer)) {}

CapturePort::~CapturePort() { finish(); }

void CapturePort::finish() {
  if (thread_ == pthread_t{}) return;
  stop_.store(true, std::memory_order_release);
  pthread_join(std::exchange(thread_, pthread_t{}), nullptr);
}

void CapturePort::close() {
  finish();
  PortDecorator::close();
}

void CapturePort::keep(const std::byte* frame, std::uint32_t bytes, CaptureDirection direction) {
  bump(frames_);
  if (!ring_.push({.wall_ns = wall_clock_ns(), .bytes = bytes, .direction = direction}, frame)) bump(dropped_);
}

std::size_t CapturePort::rx_burst(std::span<RxFrame> out) {
  const std::size_t count = PortDecorator::rx_burst(out);
  for (std::size_t i = 0; i < count; ++i) keep(out[i].data, out[i].size, CaptureDirection::kInbound);
  return count;
}

std::size_t CapturePort::tx_reserve(Route& route, std::span<TxSlot> out) {
  const std::size_t count = PortDecorator::tx_reserve(route, out.first(std::min(out.size(), kMaxReserved)));
  std::copy_n(out.begin(), count, reserved_.begin());
  return count;
}

void CapturePort::tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) {
  for (std::size_t i = 0; i < frame_bytes.size(); ++i)
    keep(reserved_[i].data, frame_bytes[i], CaptureDirection::kOutbound);
  PortDecorator::tx_commit(route, frame_bytes);
}

void* CapturePort::thread_main(void* self) {
  static_cast<CapturePort*>(self)->run();
  return nullptr;
}

/// True if there was anything to write.
bool CapturePort::drain() {
  std::array<std::byte, kMaxFrameBytes> frame;
  CapturedFrame header;
  bool any = false;
  while (ring_.pop(&header, frame)) {
    writer_->write_frame(header, {frame.data(), header.bytes});
    any = true;
  }
  if (any && !writer_->flush() && !std::exchange(write_failed_, true))
    std::fprintf(stderr, "rocinante: %s: %s; the capture is not complete\n", writer_->path().c_str(),
                 std::strerror(errno));
  return any;
}

void CapturePort::run() {
  while (!stop_.load(std::memory_order_acquire)) {
    const bool busy = drain();
    nanosleep(busy ? &kBusyNap : &kIdleNap, nullptr);
  }
  drain();
  writer_->write_statistics(wall_clock_ns(), frames_.load(std::memory_order_relaxed),
                            dropped_.load(std::memory_order_relaxed));
  if (!writer_->flush()) write_failed_ = true;
}

}  // namespace roci
