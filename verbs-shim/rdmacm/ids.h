// The objects of librdmacm: the public structure first, then what is ours.
#pragma once

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "drivers/live/live_device.h"
#include "stack/cm/connection.h"
#include "stack/cm/types.h"
#include "verbs-shim/ibverbs/event_queue.h"

namespace roci::shim {

struct CmId;

/// An event on its way to the client, and until the client acknowledges it.
struct CmEvent {
  rdma_cm_event base;
  CmId* owner;  ///< waits for the acknowledgement before it goes: of a request, the listener
  std::array<std::byte, 256> private_data;
};

struct CmChannel {
  rdma_event_channel base;
  EventQueue<CmEvent*> events;
};

/// The device as rdma_cm sees it: one context and one PD for the process.
struct CmDevice {
  ibv_context* verbs = nullptr;
  ibv_pd* pd = nullptr;
  std::uint8_t max_initiator_depth = 0;
  std::uint8_t max_responder_resources = 0;
};

/// A group that an id has joined.
struct CmMembership {
  sockaddr_storage address;
  ibv_gid gid;
  bool attached;  ///< the QP is in the group
};

struct CmId {
  rdma_cm_id base;
  const CmDevice* device;
  cm::Connection* connection;  ///< null once destroyed
  bool is_sync;                ///< has an event channel of its own, and calls wait for their events
  bool connect_failed;         ///< the QP could not follow the REP: the disconnection to come is not news

  // Events that the client has got, and has acknowledged.
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  std::uint32_t events_delivered;
  std::uint32_t events_completed;

  // A listener: requests that the client has not fetched yet.
  std::uint32_t backlog;
  std::atomic<std::uint32_t> unfetched_requests;

  std::uint8_t tos;
  std::uint8_t ack_timeout;
  std::uint8_t initiator_depth;
  std::uint8_t responder_resources;
  ibv_sa_path_rec path_record;
  std::unique_ptr<ibv_qp_init_attr> request_qp;  ///< rdma_create_ep: what the QPs of requests are made with
  std::vector<std::byte> connect_data;           ///< rdma_create_ep: private data for the connection
  std::vector<CmMembership> memberships;
};

inline CmId* from(rdma_cm_id* id) { return reinterpret_cast<CmId*>(id); }
inline CmChannel* from(rdma_event_channel* channel) { return reinterpret_cast<CmChannel*>(channel); }

/// Opens the device if it is not open in this process. Null with errno.
const CmDevice* cm_device();
LiveDevice& live_of(const CmDevice& device);

CmId* new_id(const CmDevice& device, rdma_event_channel* channel, void* context, rdma_port_space space,
             ibv_qp_type qp_type);
void delete_id(CmId* id);
/// Fills the public fields from the connection: addresses, and the device once it is known.
void describe(CmId& id);
bool is_datagram(const CmId& id);

/// Puts an event of this library's own into the id's channel.
void raise_event(CmId& id, rdma_cm_event_type type, int status);
/// For a synchronous id, waits for the event of the call that has just been made, and returns what it says. Otherwise
/// the client will get it: 0.
int complete(CmId& id);
/// Of a synchronous id: nobody else knows it.
void delete_channel(rdma_event_channel* channel);
/// Forgets events that the client has not fetched.
void forget_events(CmId& id);
void wait_for_acknowledgement(CmId& id);
cm::EventHandler& cm_event_handler();

// The QP of an id, if it has one, follows its connection. 0, or -1 with errno.
int qp_to_ready(CmId& id, std::uint8_t responder_resources, std::uint8_t initiator_depth);
int qp_to_error(CmId& id);
int fill_qp_attr(CmId& id, ibv_qp_attr* attr, int* mask);
ibv_ah_attr address_attributes(const CmId& id, const IpAddress& destination);

// Socket addresses.
bool read_address(const sockaddr* address, cm::Endpoint* out);  ///< false for a family that is neither IPv4 nor IPv6
socklen_t write_address(const cm::Endpoint& endpoint, sockaddr_storage* out);
socklen_t address_bytes(const sockaddr* address);  ///< 0 for a family that is not known

inline int fail(int error) {
  errno = error;
  return -1;
}
/// As most verbs answer: an errno value.
inline int result(int error) { return error == 0 ? 0 : fail(error); }

inline std::span<const std::byte> bytes_of(const void* data, std::size_t size) {
  return {static_cast<const std::byte*>(data), data == nullptr ? 0 : size};
}

}  // namespace roci::shim

#define ROCI_EXPORT extern "C" __attribute__((visibility("default")))
