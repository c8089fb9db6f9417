// A folder for one test, with files in it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace roci::lab {

class ScenarioFiles {
 public:
  ScenarioFiles() { std::filesystem::create_directories(folder_); }
  ~ScenarioFiles() { std::filesystem::remove_all(folder_); }
  ScenarioFiles(const ScenarioFiles&) = delete;
  ScenarioFiles& operator=(const ScenarioFiles&) = delete;

  /// Writes it; its path.
  std::string add(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return path(name);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// `message` without the folder.
  std::string without_folder(std::string message) const {
    const std::string prefix = folder_.string() + "/";
    for (std::size_t at; (at = message.find(prefix)) != std::string::npos;) message.erase(at, prefix.size());
    return message;
  }

 private:
  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / ("roci-lab." + std::to_string(getpid()));
};

}  // namespace roci::lab
