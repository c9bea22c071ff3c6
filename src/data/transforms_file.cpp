// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"
#include "data/fitted_transforms.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/detail/text_values.hpp>

#include <fmt/core.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace msstream::data::detail {

namespace {

using msstream::detail::HostState;
using msstream::detail::JsonWriter;

/// Version 1 has neither quantiles nor vocabularies that columns share, and is else the same.
constexpr int kVersion = 2;

std::string array_name(Column const& column, std::string_view what) {
  return fmt::format("transforms/{}/{}", vocabulary_name(column), what);
}

template <class T>
HostState::Array array_of(std::string name,
                          std::vector<T> const& values,
                          std::shared_ptr<void const> owner) {
  return {std::move(name),
          dtype_of<T>,
          {static_cast<std::int64_t>(values.size())},
          std::as_bytes(std::span(values)),
          std::move(owner)};
}

/// Returns the values of an array of a file. Throws std::invalid_argument if there is none.
template <class T>
std::vector<T> values_of_array(HostState::Find const& find, std::string const& name) {
  auto const found = find(name);
  require(found && found->dtype == dtype_of<T> && found->shape.size() == 1,
          "the array '{}' is missing or of another type",
          name);
  std::vector<T> values(found->bytes.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), found->bytes.data(), values.size() * sizeof(T));
  }
  return values;
}

/// Throws std::invalid_argument unless this library reads the version of the description.
void check_version(nlohmann::json const& description) {
  auto const found = description.find("version");
  require(
      found != description.end() && found->is_number_integer() && *found >= 1 && *found <= kVersion,
      "the transforms are of format version {}; this library reads versions 1 to {}",
      found == description.end() ? "none" : shown(found->dump()),
      kVersion);
}

/// Parses the description of the columns. Throws std::invalid_argument unless it is one.
nlohmann::json parse_description(std::vector<std::uint8_t> const& text) {
  constexpr int deepest = 4;
  try {
    auto json = nlohmann::json::parse(text, [](int depth, auto, auto const&) {
      return depth <= deepest ? true : throw std::invalid_argument("values nest too deeply");
    });
    if (json.is_object()) {
      check_version(json);
    }
    if (json.is_object() && json.contains("columns") && json["columns"].is_array() &&
        std::ranges::all_of(json["columns"], [](auto const& column) {
          return column.is_object() && column.contains("name") && column["name"].is_string();
        })) {
      return json;
    }
  } catch (nlohmann::json::exception const&) {  // NOLINT(bugprone-empty-catch): refused below
  }
  throw std::invalid_argument("the array 'transforms/columns' is no list of columns");
}

/// Returns the member of a column's description, which has to be a list of finite numbers.
std::vector<double> numbers_of(nlohmann::json const& column,
                               char const* member,
                               std::size_t least,
                               std::size_t most) {
  auto const found = column.find(member);
  bool valid =
      found != column.end() && found->is_array() && found->size() >= least && found->size() <= most;
  std::vector<double> numbers;
  for (std::size_t i = 0; valid && i < found->size(); ++i) {
    valid = (*found)[i].is_number();
    numbers.push_back(valid ? (*found)[i].template get<double>() : 0.0);
    valid = valid && std::isfinite(numbers.back());
  }
  require(valid,
          "{} is no list of {}{} finite numbers",
          member,
          least < most ? fmt::format("{} to ", least) : "",
          most);
  return numbers;
}

std::string text_of(nlohmann::json const& column, char const* member) {
  auto const found = column.find(member);
  return found == column.end() ? "nothing"
         : found->is_string()  ? found->get<std::string>()
                               : found->dump();
}

/// Returns the steps of a column of a file.
std::string steps_text(nlohmann::json const& column) {
  auto const found = column.find("transforms");
  if (found == column.end() || !found->is_array()) {
    return "nothing";
  }
  std::string steps;
  for (auto const& step : *found) {
    steps += fmt::format("{}{}",
                         steps.empty() ? "" : ", ",
                         step.is_string() ? step.get<std::string>() : step.dump());
  }
  return steps;
}

/// Returns steps as they are in a message: short and printable.
std::string shown_steps(std::string steps) {
  constexpr std::size_t most = 1'000;
  steps.resize(std::min(steps.size(), most));
  std::ranges::replace_if(
      steps, [](char letter) { return letter < ' ' || letter == 0x7F; }, '?');
  return steps;
}

void require_equal(std::string_view what, std::string_view file, std::string_view stated) {
  require(file == stated, "{}: the file has {}, the program {}", what, shown(file), shown(stated));
}

/// The vocabularies that have been read, by their names.
using Vocabularies = std::map<std::string, std::shared_ptr<Vocabulary const>>;

/// Reads what a column has learned. Throws std::invalid_argument for what does not fit.
FittedColumn read_column(Column const& column,
                         nlohmann::json const& json,
                         HostState::Find const& find,
                         Vocabularies& vocabularies) {
  require_equal("type", text_of(json, "type"), to_string(column.type));
  require_equal("width", text_of(json, "width"), std::to_string(column.width));
  auto const file = steps_text(json);
  auto const stated = fmt::format("{}", fmt::join(steps_of(column), ", "));
  require(
      file == stated, "the file has {}, the program {}", shown_steps(file), shown_steps(stated));
  FittedColumn fitted(column);
  auto const* const step = fitted_step(column);
  if (step != nullptr && step->kind == Transform::Kind::normalize) {
    auto const count = static_cast<std::size_t>(std::max<std::int64_t>(1, column.width));
    fitted.means = numbers_of(json, "means", count, count);
    fitted.deviations = numbers_of(json, "deviations", count, count);
    require(std::ranges::all_of(fitted.deviations, [](double value) { return value >= 0; }),
            "deviations has a number below 0");
  } else if (step != nullptr && step->kind == Transform::Kind::quantiles) {
    fitted.boundaries =
        numbers_of(json, "quantiles", 0, static_cast<std::size_t>(step->buckets) - 1);
    require(std::ranges::adjacent_find(fitted.boundaries, std::ranges::greater_equal()) ==
                fitted.boundaries.end(),
            "quantiles does not ascend");
  } else if (step != nullptr) {
    auto& known = vocabularies[vocabulary_name(column)];
    if (known) {
      fitted.vocabulary = known;
      return fitted;
    }
    auto vocabulary = std::make_shared<Vocabulary>();
    vocabulary->keys = values_of_array<std::int64_t>(find, array_name(column, "keys"));
    if (find(array_name(column, "word_ends"))) {
      vocabulary->words = values_of_array<std::uint8_t>(find, array_name(column, "words"));
      vocabulary->word_ends = values_of_array<std::int64_t>(find, array_name(column, "word_ends"));
    }
    vocabulary->index();
    known = std::move(vocabulary);
    fitted.vocabulary = known;
  }
  return fitted;
}

}  // namespace

std::vector<HostState::Array> TransformState::arrays() const {
  auto const& fitted = require_fitted();
  auto const text = std::make_shared<std::string>();
  JsonWriter json(*text);
  json.begin_object();
  json.member("version", kVersion);
  json.key("columns");
  json.begin_array();
  std::vector<Array> arrays(1);
  std::set<std::shared_ptr<Vocabulary const>> saved;
  for (auto const& column : fitted->columns()) {
    require(msstream::detail::is_utf8(column.raw.name),
            "the column name {} is not UTF-8",
            shown(column.raw.name));
    json.begin_object();
    json.member("name", column.raw.name);
    json.member("type", to_string(column.raw.type));
    json.member("width", column.raw.width);
    json.key("transforms");
    json.array(steps_of(column.raw));
    if (!column.means.empty()) {
      json.key("means");
      json.array(column.means);
      json.key("deviations");
      json.array(column.deviations);
    }
    if (column.raw.transforms.back().kind == Transform::Kind::quantiles) {
      json.key("quantiles");
      json.array(column.boundaries);
    }
    json.end_object();
    if (auto const& found = column.vocabulary; found && saved.insert(found).second) {
      arrays.push_back(array_of(array_name(column.raw, "keys"), found->keys, found));
      if (!found->word_ends.empty()) {
        arrays.push_back(array_of(array_name(column.raw, "words"), found->words, found));
        arrays.push_back(array_of(array_name(column.raw, "word_ends"), found->word_ends, found));
      }
    }
  }
  json.end_array();
  json.end_object();
  text->append((8 - text->size() % 8) % 8, ' ');
  arrays.front() = {first_name(),
                    DType::uint8,
                    {static_cast<std::int64_t>(text->size())},
                    std::as_bytes(std::span(*text)),
                    text};
  return arrays;
}

std::function<void()> TransformState::read(Find const& find) {
  auto const description = parse_description(values_of_array<std::uint8_t>(find, first_name()));
  std::map<std::string, nlohmann::json const*> of_file;
  for (auto const& column : description["columns"]) {
    of_file.emplace(column["name"].get<std::string>(), &column);
  }
  std::string problems;
  Vocabularies vocabularies;
  auto const tell = [&](std::string_view name, std::string_view what) {
    problems += fmt::format("{}column {}: {}", problems.empty() ? "" : "; ", shown(name), what);
  };
  std::vector<FittedColumn> fitted;
  for (auto const& column : columns_) {
    auto const found = of_file.extract(column.name);
    if (found.empty()) {
      tell(column.name, "the file has no transforms of it");
      continue;
    }
    try {
      fitted.push_back(read_column(column, *found.mapped(), find, vocabularies));
    } catch (std::invalid_argument const& error) {
      tell(column.name, error.what());
    }
  }
  for (auto const& [name, column] : of_file) {
    tell(name,
         fmt::format("only the file has its transforms: {}", shown_steps(steps_text(*column))));
  }
  require(problems.empty(), "{}", problems);
  return [this, made = std::make_shared<FittedTransforms const>(std::move(fitted))] {
    fitted_ = made;
  };
}

}  // namespace msstream::data::detail
