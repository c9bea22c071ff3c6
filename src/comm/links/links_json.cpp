// SPDX-License-Identifier: Apache-2.0
// Reading and writing of links as JSON.
#include "base/json_writer.hpp"
#include "base/read_file.hpp"

#include <msstream/base/error.hpp>
#include <msstream/base/output_file.hpp>
#include <msstream/comm/links.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::comm {
namespace {

using nlohmann::json;

constexpr char const* kFormat = "msstream links";
constexpr int kVersion = 1;
constexpr std::size_t kMostBytes = std::size_t{1} << 20U;

[[noreturn]] void refuse(std::string_view place, std::string_view expected, std::string found) {
  constexpr std::size_t kMost = 60;
  found = found.size() <= kMost ? found : found.substr(0, kMost) + "...";
  msstream::detail::throw_invalid_argument(
      fmt::format("{}: expected {}, found {}", place, expected, found));
}
[[noreturn]] void refuse(std::string_view place, std::string_view expected, json const& found) {
  refuse(place, expected, found.dump(-1, ' ', true, json::error_handler_t::replace));
}

/// Throws std::invalid_argument unless a value is an object with known fields alone.
void require_fields(json const& object,
                    std::string_view place,
                    std::set<std::string> const& known) {
  if (!object.is_object()) {
    refuse(place, "an object", object);
  }
  for (auto const& item : object.items()) {
    if (!known.contains(item.key())) {
      msstream::detail::throw_invalid_argument(
          fmt::format("{}: an unknown field '{}'", place, item.key()));
    }
  }
}

[[nodiscard]] json const& member(json const& object, std::string_view place, char const* name) {
  auto const found = object.find(name);
  if (found == object.end()) {
    refuse(place, fmt::format("a field '{}'", name), std::string("none"));
  }
  return *found;
}

[[nodiscard]] double number_in(json const& value, std::string_view place) {
  if (!value.is_number()) {
    refuse(place, "a number", value);
  }
  return value.get<double>();
}

[[nodiscard]] int count_in(json const& value, std::string_view place, int least) {
  if (!value.is_number_integer() || value < least || value > 1'000'000) {
    refuse(place, fmt::format("a whole number from {} to 1000000", least), value);
  }
  return value.get<int>();
}

[[nodiscard]] Links::Speeds speeds_in(json const& value, std::string const& level) {
  if (!value.is_object()) {
    refuse(level, "an object", value);
  }
  Links::Speeds speeds;
  for (auto const& item : value.items()) {
    auto const kind = collective_kind_named(item.key());
    auto const place = fmt::format("{}.{}", level, item.key());
    if (!kind) {
      refuse(place, "the name of a collective, such as all_reduce", std::string("this name"));
    }
    require_fields(item.value(), place, {"latency_ns", "step_ns", "bytes_per_ns"});
    auto const in = [&](char const* name) {
      return number_in(member(item.value(), place, name), fmt::format("{}.{}", place, name));
    };
    speeds[*kind] = {in("latency_ns"), in("step_ns"), in("bytes_per_ns")};
  }
  return speeds;
}

/// Parses JSON. Throws std::invalid_argument for an object with two equal fields.
[[nodiscard]] json parsed(std::string const& text) {
  std::vector<std::set<std::string>> fields;  // of the objects that are open
  return json::parse(text, [&](int, json::parse_event_t event, json const& value) {
    if (event == json::parse_event_t::object_start) {
      fields.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      fields.pop_back();
    } else if (event == json::parse_event_t::key &&
               !fields.back().insert(value.get<std::string>()).second) {
      msstream::detail::throw_invalid_argument(
          fmt::format("the field '{}' occurs twice in an object", value.get<std::string>()));
    }
    return true;
  });
}

[[nodiscard]] Links links_in(json const& value) {
  require_fields(value,
                 "the links",
                 {"format", "version", "ranks_per_node", "multiprocessors", "inside", "between"});
  if (auto const& format = member(value, "the links", "format"); format != kFormat) {
    refuse("format", fmt::format("\"{}\"", kFormat), format);
  }
  if (auto const& version = member(value, "the links", "version"); version != kVersion) {
    refuse("version", std::to_string(kVersion), version);
  }
  Links links{
      .ranks_per_node = count_in(member(value, "the links", "ranks_per_node"), "ranks_per_node", 1),
      .inside = speeds_in(member(value, "the links", "inside"), "inside")};
  if (value.contains("between")) {
    links.between = speeds_in(value["between"], "between");
  }
  if (value.contains("multiprocessors")) {
    links.multiprocessors = count_in(value["multiprocessors"], "multiprocessors", 0);
  }
  require_links(links);
  return links;
}

}  // namespace

void save_links(std::filesystem::path const& path, Links const& links) {
  require_links(links);
  using Layout = msstream::detail::JsonWriter::Layout;
  std::string text;
  msstream::detail::JsonWriter out(text);
  auto const write_speeds = [&](char const* level, Links::Speeds const& speeds) {
    out.key(level);
    out.begin_object(Layout::lines);
    for (auto const& [kind, speed] : speeds) {
      out.key(name_of(kind));
      out.begin_object();
      out.member("latency_ns", speed.latency_ns);
      out.member("step_ns", speed.step_ns);
      out.member("bytes_per_ns", speed.bytes_per_ns);
      out.end_object();
    }
    out.end_object();
  };
  out.begin_object(Layout::lines);
  out.member("format", kFormat);
  out.member("version", kVersion);
  out.member("ranks_per_node", links.ranks_per_node);
  out.member("multiprocessors", links.multiprocessors);
  write_speeds("inside", links.inside);
  write_speeds("between", links.between);
  out.end_object();
  write_file(path, text + "\n");
}

Links load_links(std::filesystem::path const& path) {
  auto const text = msstream::detail::read_file(path, kMostBytes);
  try {
    return links_in(parsed(text));
  } catch (json::exception const& error) {
    msstream::detail::throw_invalid_argument(
        fmt::format("{}: no JSON: {}", path.string(), error.what()));
  } catch (std::invalid_argument const& error) {
    msstream::detail::throw_invalid_argument(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace msstream::comm
