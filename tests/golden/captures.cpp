#include "tests/golden/captures.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>

namespace roci::test {
namespace {

std::vector<std::string> split_at_tabs(const std::string& line) {
  std::vector<std::string> fields;
  std::size_t start = 0;
  for (std::size_t tab = line.find('\t'); tab != std::string::npos; tab = line.find('\t', start)) {
    fields.push_back(line.substr(start, tab - start));
    start = tab + 1;
  }
  fields.push_back(line.substr(start));
  return fields;
}

}  // namespace

Capture read_capture(const std::filesystem::path& path) {
  char error[PCAP_ERRBUF_SIZE] = "";
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> pcap(pcap_open_offline(path.c_str(), error), &pcap_close);
  if (pcap == nullptr) throw std::runtime_error(path.string() + ": " + error);
  const int link_type = pcap_datalink(pcap.get());
  if (link_type != DLT_EN10MB && link_type != DLT_RAW)
    throw std::runtime_error(path.string() + ": link type " + std::to_string(link_type));
  Capture capture{.name = path.filename(), .has_ethernet = link_type == DLT_EN10MB, .frames = {}};
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  int result = 0;
  while ((result = pcap_next_ex(pcap.get(), &header, &data)) == 1) {
    if (header->caplen != header->len) throw std::runtime_error(path.string() + ": holds a frame that was cut");
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    capture.frames.emplace_back(bytes, bytes + header->caplen);
  }
  if (result != PCAP_ERROR_BREAK) throw std::runtime_error(path.string() + ": " + pcap_geterr(pcap.get()));
  return capture;
}

std::vector<std::filesystem::path> golden_captures() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(ROCI_GOLDEN_DIR))
    if (entry.path().extension() == ".pcap") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::optional<std::filesystem::path> public_captures_folder() {
  const char* folder = std::getenv("ROCI_PUBLIC_CAPTURES");
  if (folder == nullptr || !std::filesystem::is_directory(folder)) return std::nullopt;
  return folder;
}

std::map<std::size_t, DecodedFields> read_decode(const std::filesystem::path& path) {
  const std::filesystem::path table = path.parent_path() / "decode" / (path.filename().string() + ".tsv");
  std::ifstream file(table);
  std::string line;
  if (!std::getline(file, line)) throw std::runtime_error(table.string() + ": cannot be read");
  const std::vector<std::string> names = split_at_tabs(line);
  std::map<std::size_t, DecodedFields> packets;
  while (std::getline(file, line)) {
    const std::vector<std::string> values = split_at_tabs(line);
    if (values.size() != names.size()) throw std::runtime_error(table.string() + ": a row of another width");
    DecodedFields fields;
    for (std::size_t i = 0; i < names.size(); ++i) fields[names[i]] = values[i];
    const std::size_t number = std::stoul(fields.at("frame.number"));
    fields.erase("frame.number");
    packets[number] = std::move(fields);
  }
  return packets;
}

}  // namespace roci::test
