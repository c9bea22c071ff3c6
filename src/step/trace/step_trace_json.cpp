// SPDX-License-Identifier: Apache-2.0
// Reading and writing of a step trace as JSON.
#include "base/json_writer.hpp"
#include "base/read_file.hpp"

#include <msstream/base/error.hpp>
#include <msstream/base/output_file.hpp>
#include <msstream/step/step_trace.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace msstream {

namespace {

using nlohmann::json;

constexpr char const* kFormat = "msstream step trace";
constexpr int kVersion = 1;
constexpr char const* kKinds[] = {"compute", "h2d", "d2h"};

/// A value in a JSON file, with its location in the file for error messages.
class Field {
 public:
  Field(json const& value, std::string place) : value_(&value), place_(std::move(place)) {}

  [[nodiscard]] Field member(char const* name) const {
    auto const found = object().find(name);
    if (found == value_->end()) {
      refuse(fmt::format("a field '{}'", name), "none");
    }
    return {*found, fmt::format("{}{}{}", place_, place_.ends_with(' ') ? "" : ".", name)};
  }
  [[nodiscard]] bool has(char const* name) const { return object().contains(name); }
  [[nodiscard]] std::size_t count() const {
    if (!value_->is_array()) {
      refuse("a list");
    }
    return value_->size();
  }
  [[nodiscard]] Field operator[](std::size_t i) const {
    return {(*value_)[i], fmt::format("{}[{}]", place_, i)};
  }
  /// Calls `read(element)` for each element of the list, and returns the results.
  template <class Read>
  [[nodiscard]] auto list(Read&& read) const {
    std::vector<decltype(read(std::declval<Field const&>()))> elements;
    auto const end = count();
    for (std::size_t i = 0; i < end; ++i) {
      elements.push_back(read((*this)[i]));
    }
    return elements;
  }

  [[nodiscard]] std::string string() const {
    if (!value_->is_string()) {
      refuse("a text");
    }
    return value_->get<std::string>();
  }
  [[nodiscard]] bool flag() const {
    if (!value_->is_boolean()) {
      refuse("true or false");
    }
    return value_->get<bool>();
  }
  [[nodiscard]] double number() const {
    if (!value_->is_number()) {
      refuse("a number");
    }
    return value_->get<double>();
  }
  [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most) const {
    auto const fits = value_->is_number_integer() &&
                      !(value_->is_number_unsigned() &&
                        value_->get<std::uint64_t>() >
                            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits || value_->get<std::int64_t>() < least || value_->get<std::int64_t>() > most) {
      refuse(fmt::format("a whole number from {} to {}", least, most));
    }
    return value_->get<std::int64_t>();
  }
  [[nodiscard]] std::size_t count_value() const {
    return static_cast<std::size_t>(integer(0, std::numeric_limits<std::int64_t>::max()));
  }

  void refuse(std::string_view expected) const { refuse(expected, shown()); }

 private:
  [[noreturn]] void refuse(std::string_view expected, std::string_view found) const {
    throw std::invalid_argument(fmt::format(
        "{}{}expected {}, found {}", place_, place_.ends_with(' ') ? "" : ": ", expected, found));
  }
  [[nodiscard]] json const& object() const {
    if (!value_->is_object()) {
      refuse("an object");
    }
    return *value_;
  }
  [[nodiscard]] std::string shown() const {
    constexpr std::size_t most = 60;
    auto out = value_->dump(-1, ' ', true, json::error_handler_t::replace);
    return out.size() <= most ? out : out.substr(0, most) + "...";
  }

  json const* value_;
  std::string place_;
};

StreamKind kind_from(Field const& field) {
  auto const name = field.string();
  for (int i = 0; i < 3; ++i) {
    if (name == kKinds[i]) {
      return static_cast<StreamKind>(i);
    }
  }
  field.refuse("compute, h2d or d2h");
  return StreamKind::compute;
}

std::vector<std::size_t> numbers_from(Field const& field) {
  return field.list([](Field const& number) { return number.count_value(); });
}

StepTrace::Stream stream_from(Field const& field) {
  return {
      .name = field.member("name").string(),
      .group = static_cast<int>(field.member("group").integer(-1, std::numeric_limits<int>::max())),
      .merged = field.member("merged").flag()};
}

StepTrace::Collective collective_from(Field const& field) {
  auto const kind = comm::collective_kind_named(field.member("kind").string());
  if (!kind) {
    field.member("kind").refuse("the name of a collective, such as all_reduce");
  }
  return {*kind,
          field.member("bytes").count_value(),
          field.member("communicator").string(),
          static_cast<int>(field.member("ranks").integer(1, std::numeric_limits<int>::max()))};
}

StepTrace::Operation operation_from(Field const& field) {
  StepTrace::Operation operation{.name = field.member("name").string(),
                                 .stream = field.member("stream").count_value(),
                                 .kind = kind_from(field.member("kind")),
                                 .reads = numbers_from(field.member("reads")),
                                 .writes = numbers_from(field.member("writes")),
                                 .begin_ns = field.member("begin_ns").number(),
                                 .end_ns = field.member("end_ns").number()};
  if (field.has("launch_ns")) {
    operation.launch_ns = field.member("launch_ns").number();
  }
  if (field.has("sms")) {
    operation.sms =
        static_cast<int>(field.member("sms").integer(0, std::numeric_limits<int>::max()));
  }
  if (field.has("collective")) {
    operation.collective = collective_from(field.member("collective"));
  }
  return operation;
}

WaitCounts waits_from(Field const& field) {
  return {field.member("needed").count_value(),
          field.member("issued").count_value(),
          field.member("elided").count_value()};
}

/// Returns the numbers as a JSON list, for an error message.
std::string list_of(std::vector<std::size_t> const& numbers) {
  std::string out;
  detail::JsonWriter(out).array(numbers);
  return out;
}

void write(detail::JsonWriter& json, StepTrace::Stream const& stream) {
  json.begin_object();
  json.member("name", stream.name);
  json.member("group", stream.group);
  json.member("merged", stream.merged);
  json.end_object();
}

void write(detail::JsonWriter& json, StepTrace::Operation const& operation) {
  json.begin_object();
  json.member("name", operation.name);
  json.member("stream", operation.stream);
  json.member("kind", kKinds[static_cast<int>(operation.kind)]);
  json.key("reads");
  json.array(operation.reads);
  json.key("writes");
  json.array(operation.writes);
  json.key("after");
  json.array(operation.after);
  json.member("begin_ns", operation.begin_ns);
  json.member("end_ns", operation.end_ns);
  if (operation.launch_ns != 0) {
    json.member("launch_ns", operation.launch_ns);
  }
  if (operation.sms != 0) {
    json.member("sms", operation.sms);
  }
  if (auto const& collective = operation.collective) {
    json.key("collective");
    json.begin_object();
    json.member("kind", comm::name_of(collective->kind));
    json.member("bytes", collective->bytes);
    json.member("communicator", collective->communicator);
    json.member("ranks", collective->ranks);
    json.end_object();
  }
  json.end_object();
}

}  // namespace

std::string StepTrace::json() const {
  using Layout = detail::JsonWriter::Layout;
  std::string out;
  detail::JsonWriter json(out);
  auto const write_list = [&](char const* name, auto const& elements) {
    json.key(name);
    json.begin_array(Layout::lines);
    for (auto const& element : elements) {
      write(json, element);
    }
    json.end_array();
  };
  json.begin_object(Layout::lines);
  json.member("format", kFormat);
  json.member("version", kVersion);
  write_list("streams", streams_);
  json.key("memory_bytes");
  json.array(memory_bytes_);
  write_list("operations", operations_);
  json.key("waits");
  json.begin_object();
  json.member("needed", waits_.needed);
  json.member("issued", waits_.issued);
  json.member("elided", waits_.elided);
  json.end_object();
  json.end_object();
  return out + "\n";
}

StepTrace StepTrace::from_json(std::string_view content, std::string const& file_name) {
  nlohmann::json parsed;
  try {
    parsed = nlohmann::json::parse(content);
  } catch (nlohmann::json::exception const& error) {
    throw std::invalid_argument(
        fmt::format("{}: expected JSON, found {}", file_name, error.what()));
  }
  Field const file(parsed, file_name + ": ");
  if (auto const format = file.member("format"); format.string() != kFormat) {
    format.refuse(fmt::format("\"{}\"", kFormat));
  }
  if (auto const version = file.member("version"); version.integer(0, 1'000'000) != kVersion) {
    version.refuse(fmt::format("version {}", kVersion));
  }
  auto streams = file.member("streams").list(stream_from);
  auto memory_bytes = numbers_from(file.member("memory_bytes"));
  auto operations = file.member("operations").list(operation_from);
  auto const waits = waits_from(file.member("waits"));
  try {
    StepTrace trace(std::move(streams), std::move(memory_bytes), std::move(operations), waits);
    for (std::size_t i = 0; i < trace.operations_.size(); ++i) {
      auto const operation = file.member("operations")[i];
      if (operation.has("after") &&
          numbers_from(operation.member("after")) != trace.operations_[i].after) {
        operation.member("after").refuse(
            fmt::format("{}, which reads and writes give", list_of(trace.operations_[i].after)));
      }
    }
    return trace;
  } catch (std::invalid_argument const& error) {
    std::string_view const message = error.what();
    if (message.starts_with(file_name)) {
      throw;
    }
    throw std::invalid_argument(fmt::format("{}: {}", file_name, message));
  }
}

void StepTrace::save(std::filesystem::path const& path) const {
  write_file(path, json(), OutputFile::Kind::streamed);
}

StepTrace StepTrace::load(std::filesystem::path const& path) {
  constexpr std::size_t most_bytes = std::size_t{1} << 30U;
  return from_json(detail::read_file(path, most_bytes), path.string());
}

}  // namespace msstream
