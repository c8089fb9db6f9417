// Functions that clients reach through a context's tables rather than by symbol.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbs-shim/ibverbs/objects.h"

namespace roci::shim {

int query_port(ibv_context* context, std::uint8_t port_num, ibv_port_attr* out, std::size_t bytes);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    std::size_t bytes);
int query_rt_values(ibv_context* context, ibv_values_ex* values);

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
int dealloc_parent_domain(ShimPd* domain);

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* wanted);

int poll_cq(ibv_cq* cq, int max_entries, ibv_wc* wc);
int request_notify(ibv_cq* cq, int solicited_only);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);
void fill_extended_poll(ibv_cq_ex* cq);

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);
void fill_extended_post(ibv_qp_ex* qp);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr);

/// Turns a client's work request into the stack's. False if the opcode is none of ours, or a datagram goes nowhere.
bool make_send_request(const ibv_send_wr& wr, bool is_datagram, SendRequest* request);
/// As above, of binding `mw`, whose R_Key becomes `rkey`. False for rights that are none of a window's, or another
/// window's key.
bool make_bind_request(const ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& info, SendRequest* request);
/// Rings for the last `posted` requests, and turns the worker if nothing else will.
void kick(ShimQp* qp, std::size_t posted);

bool make_address_vector(const ibv_ah_attr& attr, AddressVector* av);

}  // namespace roci::shim
