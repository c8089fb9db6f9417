// Who takes part in `roci bench`, and how each is measured.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/roci/bench/parse.h"

namespace roci::bench {

struct Effort {
  bool quick = false;  ///< a tenth of the work
};

/// What one round gave.
struct Reading {
  std::map<std::string_view, double> figures;  ///< by row
  std::optional<Load> load;
};

struct Contestant {
  std::string_view id;
  std::string name;    ///< for the progress line
  std::string absent;  ///< why it cannot take part here; empty: it can
  /// Throws Failure, or Absence if it turns out that it cannot.
  std::function<Reading()> measure;
  bool on_one_core = false;  ///< the distance between two cores means nothing to it
};

/// All of them, in the order in which a round takes them. Those that need what is not there say so.
std::vector<Contestant> contestants(const Effort& effort);

// The parts of that list.
void add_perftest(std::vector<Contestant>& list, const Effort& effort);
/// DPDK's ports by themselves, and Rocinante over the same ones.
void add_ports(std::vector<Contestant>& list, const Effort& effort);
/// What one would use instead, over TCP between two network namespaces that these make and remove.
void add_rivals(std::vector<Contestant>& list, const Effort& effort);
/// What a device costs at rest.
void add_device(std::vector<Contestant>& list, const Effort& effort);

}  // namespace roci::bench
