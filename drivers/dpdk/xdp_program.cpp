#include "drivers/dpdk/xdp_program.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <unistd.h>
#include <xdp/xsk.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "drivers/dpdk/child_close.h"
#include "stack/wire/headers_l3.h"

namespace roci::dpdk {
namespace {

/// BPF instructions, put together without a compiler: the few that the program needs.
class BpfCode {
 public:
  /// R1 is the context, R6 to R9 survive calls; here R2 is the start of the headers looked at, R3 the frame's end.
  enum Register : std::uint8_t { kR0, kR1, kR2, kR3, kR4, kR5 };

  const std::vector<bpf_insn>& instructions() const { return code_; }

  void load(std::uint8_t size, Register to, Register from, std::size_t offset) {
    emit(BPF_LDX | BPF_MEM | size, to, from, static_cast<std::int16_t>(offset), 0);
  }
  void add(Register to, std::size_t value) {
    emit(BPF_ALU64 | BPF_ADD | BPF_K, to, kR0, 0, static_cast<std::int32_t>(value));
  }
  void set(Register to, std::int32_t value) { emit(BPF_ALU64 | BPF_MOV | BPF_K, to, kR0, 0, value); }
  void keep_bits(Register in, std::uint16_t bits) { emit(BPF_ALU64 | BPF_AND | BPF_K, in, kR0, 0, bits); }

  /// Passes a frame that ends before `bytes` of the headers looked at.
  void need(std::size_t bytes) {
    emit(BPF_ALU64 | BPF_MOV | BPF_X, kR4, kR2, 0, 0);
    add(kR4, bytes);
    pass_if(BPF_JMP | BPF_JGT | BPF_X, kR4, kR3, 0);
  }
  /// Passes a frame whose field has another value; `size` is BPF_B, BPF_H or BPF_W, the value as it is on the wire.
  void want(std::uint8_t size, std::size_t offset, std::uint32_t value) {
    load(size, kR5, kR2, offset);
    pass_unless(value);
  }
  void pass_unless(std::uint32_t value) {
    pass_if(BPF_JMP32 | BPF_JNE | BPF_K, kR5, kR0, static_cast<std::int32_t>(value));
  }
  /// Jumps ahead, to where land() is called, if R5 is not, or is, the value.
  std::size_t skip_unless(std::uint32_t value) {
    return emit(BPF_JMP32 | BPF_JNE | BPF_K, kR5, kR0, 0, static_cast<std::int32_t>(value));
  }
  std::size_t skip() { return emit(BPF_JMP | BPF_JA, kR0, kR0, 0, 0); }
  void land(std::size_t jump) { code_[jump].off = static_cast<std::int16_t>(code_.size() - jump - 1); }

  void load_map(Register to, int map) {
    emit(BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, map);
    emit(0, kR0, kR0, 0, 0);
  }
  void call(std::int32_t function) { emit(BPF_JMP | BPF_CALL, kR0, kR0, 0, function); }
  void exit() { emit(BPF_JMP | BPF_EXIT, kR0, kR0, 0, 0); }
  /// The end of all that is passed.
  void end_with_pass() {
    for (const std::size_t jump : passes_) land(jump);
    set(kR0, XDP_PASS);
    exit();
  }

 private:
  std::size_t emit(int operation, std::uint8_t to, std::uint8_t from, std::int16_t offset, std::int32_t value) {
    bpf_insn in{};
    in.code = static_cast<std::uint8_t>(operation);
    in.dst_reg = to & 0xf;
    in.src_reg = from & 0xf;
    in.off = offset;
    in.imm = value;
    code_.push_back(in);
    return code_.size() - 1;
  }
  void pass_if(int operation, Register to, Register from, std::int32_t value) {
    passes_.push_back(emit(operation, to, from, 0, value));
  }

  std::vector<bpf_insn> code_;
  std::vector<std::size_t> passes_;
};

/// Fragments, IPv4 options and IPv6 extension headers are the kernel's: no RoCE v2 sender makes them.
void want_ipv4(BpfCode& code) {
  constexpr std::size_t kL3 = EthernetHeader::kSize;
  code.need(kL3 + Ipv4Header::kSize + UdpHeader::kSize);
  code.want(BPF_B, kL3, 0x45);
  code.load(BPF_H, BpfCode::kR5, BpfCode::kR2, kL3 + 6);
  code.keep_bits(BpfCode::kR5, htons(Ipv4Header::kFragmentMask));
  code.pass_unless(0);
  code.want(BPF_B, kL3 + 9, kIpProtocolUdp);
  code.want(BPF_H, kL3 + Ipv4Header::kSize + 2, htons(kRoceUdpPort));
}

void want_ipv6(BpfCode& code) {
  constexpr std::size_t kL3 = EthernetHeader::kSize;
  code.need(kL3 + Ipv6Header::kSize + UdpHeader::kSize);
  code.want(BPF_B, kL3 + 6, kIpProtocolUdp);
  code.want(BPF_H, kL3 + Ipv6Header::kSize + 2, htons(kRoceUdpPort));
}

BpfCode redirect_code(const MacAddress& mac, int map) {
  BpfCode code;
  code.load(BPF_W, BpfCode::kR2, BpfCode::kR1, offsetof(xdp_md, data));
  code.load(BPF_W, BpfCode::kR3, BpfCode::kR1, offsetof(xdp_md, data_end));
  code.need(EthernetHeader::kSize + VlanTag::kSize);
  std::uint32_t mac_start = 0;
  std::uint16_t mac_end = 0;
  std::memcpy(&mac_start, mac.bytes.data(), sizeof mac_start);
  std::memcpy(&mac_end, mac.bytes.data() + sizeof mac_start, sizeof mac_end);
  code.load(BPF_B, BpfCode::kR5, BpfCode::kR2, 0);
  code.keep_bits(BpfCode::kR5, 1);
  const std::size_t to_group = code.skip_unless(0);  // the interface lets those in that were joined
  code.want(BPF_W, 0, mac_start);
  code.want(BPF_H, 4, mac_end);
  code.land(to_group);
  code.load(BPF_H, BpfCode::kR5, BpfCode::kR2, 12);
  const std::size_t untagged = code.skip_unless(htons(kEtherTypeVlan));
  code.add(BpfCode::kR2, VlanTag::kSize);
  code.need(EthernetHeader::kSize);
  code.load(BPF_H, BpfCode::kR5, BpfCode::kR2, 12);
  code.land(untagged);
  const std::size_t not_v4 = code.skip_unless(htons(kEtherTypeIpv4));
  want_ipv4(code);
  const std::size_t found = code.skip();
  code.land(not_v4);
  code.pass_unless(htons(kEtherTypeIpv6));
  want_ipv6(code);
  code.land(found);
  code.load(BPF_W, BpfCode::kR2, BpfCode::kR1, offsetof(xdp_md, rx_queue_index));
  code.load_map(BpfCode::kR1, map);
  code.set(BpfCode::kR3, XDP_PASS);  // where there is no socket
  code.call(BPF_FUNC_redirect_map);
  code.exit();
  code.end_with_pass();
  return code;
}

int load(const MacAddress& mac, int map) {
  const BpfCode code = redirect_code(mac, map);
  return bpf_prog_load(BPF_PROG_TYPE_XDP, "roci_rdma", "Dual BSD/GPL", code.instructions().data(),
                       code.instructions().size(), nullptr);
}

bool fail(const std::string& what, std::string* error) {
  *error = what + ": " + std::strerror(errno);
  return false;
}

XdpProgram* driver_program = nullptr;

}  // namespace

XdpProgram::~XdpProgram() {
  for (const int fd : {link_, map_}) close_for_good(fd);
}

bool XdpProgram::attach(unsigned interface_index, const MacAddress& mac, XdpMode mode, std::string* error) {
  map_ = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "roci_rdma", sizeof(std::uint32_t), sizeof(std::uint32_t), 1, nullptr);
  if (map_ < 0) return fail("a map of AF_XDP sockets", error);
  close_in_child(map_);
  const int program = load(mac, map_);
  if (program < 0) return fail("loading the XDP program", error);
  bpf_link_create_opts options{};
  options.sz = sizeof options;
  options.flags = mode == XdpMode::kNative ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
  link_ = bpf_link_create(program, static_cast<int>(interface_index), BPF_XDP, &options);
  const int reason = errno;
  close(program);
  errno = reason;
  if (link_ < 0) return fail("attaching the XDP program", error);
  close_in_child(link_);
  return true;
}

int XdpProgram::admit(xsk_socket* socket) { return xsk_socket__update_xskmap(socket, map_); }

void XdpProgram::set_mac(const MacAddress& mac) {
  const int program = load(mac, map_);
  if (program < 0) return;
  bpf_link_update(link_, program, nullptr);
  close(program);
}

XdpDriverScope::XdpDriverScope(XdpProgram& program) { driver_program = &program; }
XdpDriverScope::~XdpDriverScope() { driver_program = nullptr; }

}  // namespace roci::dpdk

// The linker (--wrap) puts these before the two functions, for all of this library.

extern "C" {

int __real_xsk_socket__create(xsk_socket** socket, const char* interface, std::uint32_t queue, xsk_umem* umem,
                              xsk_ring_cons* rx, xsk_ring_prod* tx, const xsk_socket_config* config);
int __wrap_xsk_socket__create(xsk_socket** socket, const char* interface, std::uint32_t queue, xsk_umem* umem,
                              xsk_ring_cons* rx, xsk_ring_prod* tx, const xsk_socket_config* config) {
  xsk_socket_config changed = *config;
  roci::dpdk::XdpProgram* program = roci::dpdk::driver_program;
  if (program != nullptr) changed.libxdp_flags |= XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  const int failed = __real_xsk_socket__create(socket, interface, queue, umem, rx, tx, &changed);
  return failed != 0 || program == nullptr ? failed : program->admit(*socket);
}

int __real_bpf_xdp_detach(int interface, std::uint32_t flags, const bpf_xdp_attach_opts* options);
int __wrap_bpf_xdp_detach(int interface, std::uint32_t flags, const bpf_xdp_attach_opts* options) {
  return roci::dpdk::driver_program != nullptr ? 0 : __real_bpf_xdp_detach(interface, flags, options);
}

}  // extern "C"
