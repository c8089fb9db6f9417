// SIGSEGV and SIGBUS while the stack touches the application's memory: not the application's business.
#pragma once

namespace roci {

/// Installs the handler, once a process. Faults elsewhere go to what was there before, or to what the application has
/// asked for since (see verbs-shim/redirect), as if this handler did not exist.
void install_fault_handler();

}  // namespace roci
