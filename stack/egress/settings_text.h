// Settings of the egress as people write them: on a command line, in the environment, in a scenario.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "stack/egress/settings.h"

namespace roci::egress {

struct SettingText {
  std::string_view name;
  std::string_view form;  ///< of its value, for people
  std::string_view description;
  /// Checks `value` and, if it is good, puts it into the settings. Returns what is wrong with it, empty if nothing.
  std::string (*apply)(std::string_view value, Settings* settings);
};

std::span<const SettingText> setting_texts();

}  // namespace roci::egress
