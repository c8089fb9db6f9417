// Preloaded into the client: what it asks of sigaction for SIGSEGV and SIGBUS is written down and heeded, but does not
// displace the stack's own handler, which has to see the faults of its copies first.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <cerrno>

#define ROCI_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Sigaction = int (*)(int, const struct sigaction*, struct sigaction*);

Sigaction real_sigaction() {
  static const auto real = reinterpret_cast<Sigaction>(dlsym(RTLD_NEXT, "sigaction"));
  return real;
}

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
bool claimed = false;
struct sigaction client_segv;
struct sigaction client_bus;

/// A child must not find the mutex taken by a thread that it does not have.
[[gnu::constructor]] void guard_forks() {
  pthread_atfork([] { pthread_mutex_lock(&mutex); }, [] { pthread_mutex_unlock(&mutex); },
                 [] { pthread_mutex_unlock(&mutex); });
}

struct sigaction* client_action(int number) {
  if (number == SIGSEGV) return &client_segv;
  return number == SIGBUS ? &client_bus : nullptr;
}

}  // namespace

/// The stack's handler takes both signals; what the client had asked for so far is kept.
ROCI_EXPORT void roci_redirect_claim_faults(const struct sigaction* action) {
  pthread_mutex_lock(&mutex);
  real_sigaction()(SIGSEGV, action, &client_segv);
  real_sigaction()(SIGBUS, action, &client_bus);
  claimed = true;
  pthread_mutex_unlock(&mutex);
}

/// What the client wants done with one of the two. Called by the handler.
ROCI_EXPORT const struct sigaction* roci_redirect_disposition(int number) { return client_action(number); }

/// The kernel's own action from now on: the process is to end. Called by the handler.
ROCI_EXPORT void roci_redirect_give_up(int number) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigemptyset(&action.sa_mask);
  real_sigaction()(number, &action, nullptr);
}

ROCI_EXPORT int sigaction(int number, const struct sigaction* action, struct sigaction* old) {
  struct sigaction* client = client_action(number);
  pthread_mutex_lock(&mutex);
  const bool is_ours = claimed && client != nullptr;
  if (is_ours) {
    const struct sigaction before = *client;
    if (action != nullptr) *client = *action;
    if (old != nullptr) *old = before;
  }
  pthread_mutex_unlock(&mutex);
  return is_ours ? 0 : real_sigaction()(number, action, old);
}

ROCI_EXPORT sighandler_t signal(int number, sighandler_t handler) {
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}
