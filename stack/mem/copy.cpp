#include "stack/mem/copy.h"

// Arguments and results as the System V ABI has them. None of this touches the stack, so that `resume` can return from
// any instruction of it. Short copies are pairs of loads and stores that meet in the middle; from 257 bytes on the
// string instruction is as fast as anything, and it too may fault at any byte.
asm(R"(
  .text
  .p2align 6
  .globl roci_user_access_begin
  .hidden roci_user_access_begin
  .globl roci_user_access_end
  .hidden roci_user_access_end
  .globl roci_user_access_resume
  .hidden roci_user_access_resume
  .globl roci_copy_user
  .hidden roci_copy_user
  .type roci_copy_user, @function
  .globl roci_user_fetch_add64
  .hidden roci_user_fetch_add64
  .type roci_user_fetch_add64, @function
  .globl roci_user_compare_swap64
  .hidden roci_user_compare_swap64
  .type roci_user_compare_swap64, @function

roci_user_access_begin:

# rdi destination, rsi source, rdx bytes
roci_copy_user:
  .cfi_startproc
  cmpq $16, %rdx
  jb 2f
  cmpq $32, %rdx
  jbe 1f
  cmpq $256, %rdx
  ja 7f
  movups -32(%rsi,%rdx), %xmm2
  movups -16(%rsi,%rdx), %xmm3
  leaq -32(%rdi,%rdx), %rcx
0:
  movups (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups %xmm0, (%rdi)
  movups %xmm1, 16(%rdi)
  addq $32, %rsi
  addq $32, %rdi
  cmpq %rcx, %rdi
  jb 0b
  movups %xmm2, (%rcx)
  movups %xmm3, 16(%rcx)
  movl $1, %eax
  ret
1:
  movups (%rsi), %xmm0
  movups -16(%rsi,%rdx), %xmm1
  movups %xmm0, (%rdi)
  movups %xmm1, -16(%rdi,%rdx)
  movl $1, %eax
  ret
2:
  cmpq $8, %rdx
  jb 3f
  movq (%rsi), %rax
  movq -8(%rsi,%rdx), %rcx
  movq %rax, (%rdi)
  movq %rcx, -8(%rdi,%rdx)
  movl $1, %eax
  ret
3:
  cmpq $4, %rdx
  jb 4f
  movl (%rsi), %eax
  movl -4(%rsi,%rdx), %ecx
  movl %eax, (%rdi)
  movl %ecx, -4(%rdi,%rdx)
  movl $1, %eax
  ret
4:
  testq %rdx, %rdx
  je 6f
  movzbl (%rsi), %eax
  movb %al, (%rdi)
  cmpq $1, %rdx
  je 6f
  movzwl -2(%rsi,%rdx), %eax
  movw %ax, -2(%rdi,%rdx)
6:
  movl $1, %eax
  ret
7:
  movq %rdx, %rcx
  rep movsb
  movl $1, %eax
  ret
  .cfi_endproc
  .size roci_copy_user, . - roci_copy_user

# rdi address, rsi add, rdx original
roci_user_fetch_add64:
  .cfi_startproc
  lock xaddq %rsi, (%rdi)
  movq %rsi, (%rdx)
  movl $1, %eax
  ret
  .cfi_endproc
  .size roci_user_fetch_add64, . - roci_user_fetch_add64

# rdi address, rsi compare, rdx swap, rcx original
roci_user_compare_swap64:
  .cfi_startproc
  movq %rsi, %rax
  lock cmpxchgq %rdx, (%rdi)
  movq %rax, (%rcx)
  movl $1, %eax
  ret
  .cfi_endproc
  .size roci_user_compare_swap64, . - roci_user_compare_swap64

roci_user_access_end:
roci_user_access_resume:
  .cfi_startproc
  xorl %eax, %eax
  ret
  .cfi_endproc
)");

extern "C" {
int roci_copy_user(void* destination, const void* source, std::size_t bytes);
int roci_user_fetch_add64(std::uint64_t* address, std::uint64_t add, std::uint64_t* original);
int roci_user_compare_swap64(std::uint64_t* address, std::uint64_t compare, std::uint64_t swap,
                             std::uint64_t* original);
extern const char roci_user_access_begin[];
extern const char roci_user_access_end[];
extern const char roci_user_access_resume[];
}

namespace roci {

bool copy_user(void* destination, const void* source, std::size_t bytes) {
  return roci_copy_user(destination, source, bytes) != 0;
}

bool user_fetch_add64(std::uint64_t* address, std::uint64_t add, std::uint64_t* original) {
  return roci_user_fetch_add64(address, add, original) != 0;
}

bool user_compare_swap64(std::uint64_t* address, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original) {
  return roci_user_compare_swap64(address, compare, swap, original) != 0;
}

UserAccessText user_access_text() {
  return {reinterpret_cast<std::uintptr_t>(roci_user_access_begin),
          reinterpret_cast<std::uintptr_t>(roci_user_access_end),
          reinterpret_cast<std::uintptr_t>(roci_user_access_resume)};
}

}  // namespace roci
