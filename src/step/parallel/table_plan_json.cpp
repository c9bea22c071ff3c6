// SPDX-License-Identifier: Apache-2.0
// Reading and writing of a table plan as JSON.
#include "base/json_writer.hpp"
#include "base/read_file.hpp"

#include <msstream/base/error.hpp>
#include <msstream/base/output_file.hpp>
#include <msstream/step/table_plan.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace msstream {
namespace {

using nlohmann::json;

constexpr char const* kPlanFormat = "msstream table plan";
constexpr int kPlanVersion = 1;
constexpr std::size_t kMostPlanBytes = std::size_t{64} << 20U;
constexpr std::int64_t kMostRanks = 1'000'000;

/// Throws std::invalid_argument about a value of the file.
[[noreturn]] void refuse(std::string_view place, std::string_view expected, json const& found) {
  constexpr std::size_t kMost = 60;
  auto text = found.dump(-1, ' ', true, json::error_handler_t::replace);
  text = text.size() <= kMost ? text : text.substr(0, kMost) + "...";
  detail::throw_invalid_argument(fmt::format("{}: expected {}, found {}", place, expected, text));
}

[[nodiscard]] json const& member(json const& object, char const* name, std::string const& place) {
  if (!object.is_object()) {
    refuse(place, "an object", object);
  }
  auto const found = object.find(name);
  if (found == object.end()) {
    detail::throw_invalid_argument(
        fmt::format("{}: expected a field '{}', found none", place, name));
  }
  return *found;
}

[[nodiscard]] std::string text_in(json const& value, std::string const& place) {
  if (!value.is_string()) {
    refuse(place, "a text", value);
  }
  return value.get<std::string>();
}

[[nodiscard]] int number_in(json const& value,
                            std::int64_t least,
                            std::int64_t most,
                            std::string const& place) {
  bool const fits = value.is_number_integer() && value >= least && value <= most;
  if (!fits) {
    refuse(place, fmt::format("a whole number from {} to {}", least, most), value);
  }
  return value.get<int>();
}

[[nodiscard]] json const& list_in(json const& value, std::string const& place) {
  if (!value.is_array()) {
    refuse(place, "a list", value);
  }
  return value;
}

[[nodiscard]] Sharding sharding_in(json const& value, std::string const& place) {
  auto const name = text_in(value, place);
  for (auto const sharding :
       {Sharding::table_wise, Sharding::row_wise, Sharding::column_wise, Sharding::replicated}) {
    if (name == name_of(sharding)) {
      return sharding;
    }
  }
  refuse(place, "table_wise, row_wise, column_wise or replicated", value);
}

void refuse_others(json const& object,
                   std::set<std::string> const& known,
                   std::string const& place) {
  for (auto const& item : object.items()) {
    if (!known.contains(item.key())) {
      detail::throw_invalid_argument(fmt::format("{}: an unknown field '{}'", place, item.key()));
    }
  }
}

[[nodiscard]] TablePlacement placement_in(json const& value, int ranks, std::string place) {
  TablePlacement at{text_in(member(value, "table", place), place + ", field 'table'")};
  place += fmt::format(" '{}'", at.table);
  refuse_others(value, {"table", "sharding", "ranks"}, place);
  at.sharding = sharding_in(member(value, "sharding", place), place + ", field 'sharding'");
  if (at.sharding != Sharding::replicated || value.contains("ranks")) {
    auto const of_ranks = place + ", field 'ranks'";
    for (auto const& rank : list_in(member(value, "ranks", place), of_ranks)) {
      at.ranks.push_back(number_in(rank, 0, ranks - 1, of_ranks));
    }
  }
  return at;
}

[[nodiscard]] TablePlan plan_in(json const& value) {
  std::string const whole = "the plan";
  if (auto const& format = member(value, "format", whole); format != kPlanFormat) {
    refuse("field 'format'", fmt::format("\"{}\"", kPlanFormat), format);
  }
  (void)number_in(member(value, "version", whole), 1, kPlanVersion, "field 'version'");
  refuse_others(value, {"format", "version", "ranks", "tables"}, whole);
  TablePlan plan{number_in(member(value, "ranks", whole), 1, kMostRanks, "field 'ranks'"), {}};
  std::set<std::string> names;
  for (auto const& at : list_in(member(value, "tables", whole), "field 'tables'")) {
    auto placement = placement_in(at, plan.ranks, fmt::format("table {}", plan.tables.size()));
    if (!names.insert(placement.table).second) {
      detail::throw_invalid_argument(
          fmt::format("table {} '{}' occurs twice", plan.tables.size(), placement.table));
    }
    plan.tables.push_back(std::move(placement));
  }
  return plan;
}

}  // namespace

void save_plan(std::filesystem::path const& path, TablePlan const& plan) {
  using Layout = detail::JsonWriter::Layout;
  std::string text;
  detail::JsonWriter out(text);
  out.begin_object(Layout::lines);
  out.member("format", kPlanFormat);
  out.member("version", kPlanVersion);
  out.member("ranks", plan.ranks);
  out.key("tables");
  out.begin_array(Layout::lines);
  for (auto const& at : plan.tables) {
    out.begin_object();
    out.member("table", at.table);
    out.member("sharding", name_of(at.sharding));
    out.key("ranks");
    out.array(at.ranks);
    out.end_object();
  }
  out.end_array();
  out.end_object();
  write_file(path, text + "\n");
}

TablePlan load_plan(std::filesystem::path const& path) {
  auto const text = detail::read_file(path, kMostPlanBytes);
  try {
    return plan_in(json::parse(text));
  } catch (json::exception const& error) {
    detail::throw_invalid_argument(fmt::format("{}: no JSON: {}", path.string(), error.what()));
  } catch (std::invalid_argument const& error) {
    detail::throw_invalid_argument(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace msstream
