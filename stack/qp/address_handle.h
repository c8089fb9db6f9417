// Address handle: the path of a UD packet.
#pragma once

#include "stack/mem/memory.h"
#include "stack/qp/attributes.h"

namespace roci {

/// Owner: control, under the baton.
struct AddressHandle {
  Pd* pd = nullptr;
  AddressVector av;
};

}  // namespace roci
