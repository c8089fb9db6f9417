#include "drivers/live/fault_handler.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "stack/mem/copy.h"

namespace roci {
namespace {

/// What the application wants done with a fault: kept here, or by the preloaded library that stands before sigaction.
struct sigaction segv_action;
struct sigaction bus_action;
using Disposition = const struct sigaction* (*)(int);
Disposition application_disposition = nullptr;
/// Past the preloaded library, which would only write it down.
using GiveUp = void (*)(int);
GiveUp give_up_signal = [](int number) { ::signal(number, SIG_DFL); };

const struct sigaction* disposition_of(int number) {
  if (application_disposition != nullptr) return application_disposition(number);
  return number == SIGSEGV ? &segv_action : &bus_action;
}

/// As the kernel would have called it: with its mask, which our return restores with the rest of the context.
void pass_on(int number, siginfo_t* info, void* context) {
  const struct sigaction* action = disposition_of(number);
  const bool takes_info = (action->sa_flags & SA_SIGINFO) != 0;
  const bool was_sent = info->si_code <= 0;  // by a process, and not for a fault
  if (!takes_info && action->sa_handler == SIG_IGN && was_sent) return;
  if (!takes_info && (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)) {
    // The instruction faults again, and the kernel ends the process; it cannot be told to ignore such a fault.
    give_up_signal(number);
    if (was_sent) raise(number);
    return;
  }
  sigset_t mask = action->sa_mask;
  if ((action->sa_flags & SA_NODEFER) == 0) sigaddset(&mask, number);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  if (takes_info)
    action->sa_sigaction(number, info, context);
  else
    action->sa_handler(number);
}

void on_fault(int number, siginfo_t* info, void* context) {
  auto* machine = static_cast<ucontext_t*>(context);
  auto& counter = machine->uc_mcontext.gregs[REG_RIP];
  const UserAccessText text = user_access_text();
  const auto at = static_cast<std::uintptr_t>(counter);
  if (at >= text.begin && at < text.end) {
    counter = static_cast<greg_t>(text.resume);
    return;
  }
  pass_on(number, info, context);
}

void install() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  // The application may have given its threads stacks for signals; a fault of its own may be that of a full stack.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  using Claim = void (*)(const struct sigaction*);
  auto claim = reinterpret_cast<Claim>(dlsym(RTLD_DEFAULT, "roci_redirect_claim_faults"));
  application_disposition = reinterpret_cast<Disposition>(dlsym(RTLD_DEFAULT, "roci_redirect_disposition"));
  const auto give_up = reinterpret_cast<GiveUp>(dlsym(RTLD_DEFAULT, "roci_redirect_give_up"));
  if (claim != nullptr && application_disposition != nullptr && give_up != nullptr) {
    give_up_signal = give_up;
    return claim(&action);
  }
  application_disposition = nullptr;
  sigaction(SIGSEGV, &action, &segv_action);
  sigaction(SIGBUS, &action, &bus_action);
}

}  // namespace

void install_fault_handler() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
}

}  // namespace roci
