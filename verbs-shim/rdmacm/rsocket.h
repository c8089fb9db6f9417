// A stream socket over an RC QP, which speaks the wire protocol of Linux's rsockets.
//
// Data is written straight into a buffer that the peer has announced; the immediate data of the write says how much.
// The peer announces the next half of its receive buffer when that is free, and how many messages it can take.
#pragma once

#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "verbs-shim/rdmacm/rsocket_wire.h"

namespace roci::shim {

struct RsocketSettings {
  std::uint32_t send_bytes = 1u << 17;
  std::uint32_t receive_bytes = 1u << 17;
  std::uint32_t send_messages = 384;
  std::uint32_t receive_messages = 384;
  std::uint32_t inline_bytes = 64;
  std::uint32_t mapping_slots = 0;  ///< that the peer may fill
  bool nodelay = false;
  bool keepalive = false;
  bool oob_inline = false;
  int keepalive_seconds = 0;
  linger close_linger{};
};

class Rsocket {
 public:
  enum class State : std::uint8_t { kNew, kBound, kListening, kConnecting, kAccepting, kConnected, kClosed };

  explicit Rsocket(rdma_cm_id* id) : id_(id) {}
  ~Rsocket();
  Rsocket(const Rsocket&) = delete;
  Rsocket& operator=(const Rsocket&) = delete;

  // As the calls of the same names; -1 with errno on failure.
  int bind(const sockaddr* address);
  int listen(int backlog);
  /// The new socket, or null with errno.
  std::unique_ptr<Rsocket> accept();
  int connect(const sockaddr* address);
  int shutdown(int how);
  void close();
  ssize_t send(std::span<const iovec> data, int flags);
  ssize_t receive(std::span<const iovec> data, int flags);
  int set_nonblocking(bool nonblocking);

  /// A window of the peer's on this memory. Returns the offset that the peer gives it, or -1 with errno.
  off_t map(void* memory, std::size_t bytes, int protection, off_t offset);
  int unmap(void* memory, std::size_t bytes);
  /// Writes into a window that the peer has offered.
  std::size_t write_mapped(const void* data, std::size_t bytes, off_t offset);

  /// What of `events` holds now.
  short ready(short events);
  /// Adds descriptors whose readiness may change that, after asking for events. False: it has changed already.
  bool watch(short events, std::vector<pollfd>* out);
  /// Takes in what has come.
  void progress();

  rdma_cm_id* id() { return id_; }
  int fd() const { return id_->channel->fd; }
  State state() const { return state_; }
  bool nonblocking() const { return nonblocking_; }
  RsocketSettings& settings() { return settings_; }
  int take_error();
  bool is_connected() const { return state_ == State::kConnected; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Region {
    std::vector<std::byte> memory;
    ibv_mr* mr = nullptr;
  };
  struct Mapping {
    ibv_mr* mr;
    off_t offset;
    std::uint32_t slot;
    bool announced;
  };

  int continue_connecting();
  int end_sending(int how, Lock& lock);
  bool make_endpoint();
  bool make_region(Region* region, std::size_t bytes, int access);
  bool post_receive();
  void take_hello(const rdma_cm_event& event);
  RsocketHello hello() const;
  void fail_with(int error);

  // The send side.
  bool can_send() const;
  bool can_control() const { return controls_sent_ < controls_allowed_; }
  bool post(const RsocketMessage& message, std::span<ibv_sge> data, const RemoteBuffer& to, unsigned flags,
            bool with_immediate);
  /// Sends `data` as one message.
  bool send_piece(std::span<const std::byte> data, const RemoteBuffer& to, RsocketOp op);
  /// The part of the peer's buffer that is filled next.
  RemoteBuffer target() const;
  void advance_target(std::size_t bytes);
  bool send_credits();
  void send_credits_if_due();
  bool announce_mappings(Lock& lock, int flags);
  RemoteMapping* find_mapping(off_t offset);
  RemoteMapping* offered_mappings() const;
  RemoteBuffer* targets() const;

  // Both sides.
  void poll_cq();
  void on_message(const RsocketMessage& message);
  void on_sent(const RsocketMessage& message);
  void take_cm_events();
  /// Lets go of the lock until something has happened. False if the socket is not to wait.
  bool wait(Lock& lock, int flags);
  bool has_data() const { return !messages_.empty(); }

  rdma_cm_id* id_;
  RsocketSettings settings_;
  State state_ = State::kNew;
  bool nonblocking_ = false;
  bool readable_ = false;  ///< the peer may still send
  bool writable_ = false;  ///< this side may still send
  int error_ = 0;

  std::mutex mutex_;
  std::condition_variable happened_;
  std::uint64_t completions_ = 0;  ///< seen so far: whoever waits looks again when there are more
  bool is_waiting_ = false;        ///< a thread sleeps on the descriptors for all

  // What the peer writes to: tables, then the receive buffer.
  Region tables_;
  Region received_;
  std::size_t read_offset_ = 0;
  std::size_t free_offset_ = 0;         ///< of the half that is announced next
  std::size_t free_bytes_ = 0;          ///< read by the application and not announced again
  std::deque<std::uint32_t> messages_;  ///< bytes of each that is not read
  std::uint16_t messages_read_ = 0;
  std::uint16_t credits_due_at_ = 0;  ///< messages_read_ at which the peer is told of more

  // What this side writes from and to.
  Region staged_;
  std::size_t stage_offset_ = 0;
  std::size_t stage_free_ = 0;
  std::uint32_t sends_free_ = 0;
  std::uint16_t messages_sent_ = 0;
  std::uint16_t messages_allowed_ = 0;
  std::uint32_t controls_sent_ = 0;
  std::uint32_t controls_allowed_ = 0;
  std::size_t target_ = 0;  ///< of the table, which is filled now
  RemoteBuffer remote_table_;
  std::size_t remote_slot_ = 1;  ///< of the peer's table, which is written next
  RemoteBuffer remote_mappings_;
  std::vector<Mapping> mappings_;
};

/// The socket of a descriptor, or null with EBADF.
std::shared_ptr<Rsocket> find_rsocket(int fd);

}  // namespace roci::shim
