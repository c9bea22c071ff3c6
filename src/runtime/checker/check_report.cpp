// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"

#include <msstream/runtime/checker.hpp>

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cstring>

namespace msstream {

namespace {

/// Begins another line in the description of an access, aligned with the first word of the first
/// line.
constexpr std::string_view kUnderIt = "\n           ";

std::string hex(std::uintptr_t address) {
  std::array<char, 20> digits{};
  auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), address, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

std::string_view name_of(AccessMode mode) {
  return mode == AccessMode::read ? "read" : mode == AccessMode::write ? "write" : "accumulate";
}
std::string_view verb(AccessMode mode) {
  return mode == AccessMode::read ? "reads" : mode == AccessMode::write ? "writes" : "adds into";
}

std::string place(std::source_location const& where) {
  return fmt::format("{}:{}", where.file_name(), where.line());
}

bool same_place(std::source_location const& one, std::source_location const& other) {
  return one.line() == other.line() && std::strcmp(one.file_name(), other.file_name()) == 0;
}

bool same_access(std::optional<CheckReport::Access> const& one,
                 std::optional<CheckReport::Access> const& other) {
  if (!one || !other) {
    return one.has_value() == other.has_value();
  }
  return one->operation == other->operation && one->lane == other->lane &&
         one->mode == other->mode && same_place(one->issued_at, other->issued_at);
}

void write(detail::JsonWriter& json, CheckReport::Access const& access) {
  json.begin_object();
  json.member("operation", access.operation);
  json.member("stream", access.lane);
  json.member("mode", name_of(access.mode));
  json.member("begin", hex(access.begin));
  json.member("bytes", access.bytes);
  if (access.issued_at.line() != 0) {
    json.member("issued_at", place(access.issued_at));
  }
  if (access.scope_opened_at.line() != 0) {
    json.member("scope_opened_at", place(access.scope_opened_at));
  }
  json.end_object();
}

}  // namespace

std::string lane_of(std::uintptr_t stream) {
  return "stream " + hex(stream);
}

std::string_view name_of(CheckKind kind) noexcept {
  switch (kind) {
    case CheckKind::race:
      return "race";
    case CheckKind::use_after_free:
      return "use after free";
    case CheckKind::early_reuse:
      return "early reuse";
    case CheckKind::undeclared_use:
      return "undeclared use";
    case CheckKind::unwritten_read:
      return "unwritten read";
    case CheckKind::unrecorded_wait:
      return "unrecorded wait";
    case CheckKind::dead_event:
      return "dead event";
    case CheckKind::host_race:
      return "host race";
    case CheckKind::pageable_copy:
      return "pageable copy";
    case CheckKind::copy_overlap:
      return "overlapping copy";
    case CheckKind::implicit_sync:
      return "implicit synchronisation";
    case CheckKind::leak:
      break;
  }
  return "leak";
}

std::string CheckReport::Access::text() const {
  std::string line = fmt::format("'{}' {}", operation, verb(mode));
  if (bytes != 0) {
    line += fmt::format(" {} bytes at {}", bytes, hex(begin));
  }
  line += " on " + lane;
  if (issued_at.line() != 0) {
    line += std::string(kUnderIt) + "issued at " + place(issued_at);
  }
  if (scope_opened_at.line() != 0) {
    line += std::string(kUnderIt) + "in the scope opened at " + place(scope_opened_at);
  }
  return line;
}

std::string CheckReport::text() const {
  std::string lines = fmt::format("{}: {}", name_of(kind), message);
  if (first) {
    lines += "\n  first:   " + first->text();
  }
  if (second) {
    lines += "\n  second:  " + second->text();
  }
  if (!missing.empty()) {
    lines += "\n  missing: " + missing;
  }
  return lines;
}

bool CheckReport::same_as(CheckReport const& other) const noexcept {
  bool const about_operations = first.has_value() || second.has_value();
  return kind == other.kind && same_access(first, other.first) &&
         same_access(second, other.second) && (about_operations || message == other.message);
}

std::string json_of(std::vector<CheckReport> const& reports) {
  using Layout = detail::JsonWriter::Layout;
  std::string out;
  detail::JsonWriter json(out);
  json.begin_object();
  json.key("reports");
  json.begin_array(Layout::lines);
  for (auto const& report : reports) {
    json.begin_object(Layout::lines);
    json.member("kind", name_of(report.kind));
    json.member("times", report.times);
    json.member("message", report.message);
    if (report.first) {
      json.key("first");
      write(json, *report.first);
    }
    if (report.second) {
      json.key("second");
      write(json, *report.second);
    }
    if (!report.missing.empty()) {
      json.member("missing", report.missing);
    }
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return out + "\n";
}

}  // namespace msstream
