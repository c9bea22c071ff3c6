// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/operation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// What a checking runtime finds.
enum class CheckKind : std::uint8_t {
  race,  ///< two accesses, one of them a write, of which neither is ordered before the other
  use_after_free,   ///< a use of memory that its allocator has
  early_reuse,      ///< memory given out or freed while the device may still use it
  undeclared_use,   ///< a copy or fill inside an operation of memory that it has not named so
  unwritten_read,   ///< a read of memory of which nothing was written since it was given out
  unrecorded_wait,  ///< a wait for an event that was never recorded: it orders nothing
  dead_event,       ///< a use of an event that was destroyed
  host_race,        ///< the host uses pinned memory before it knows the copies to be complete
  pageable_copy,    ///< a copy from or to host memory that is not pinned: it blocks the host
  copy_overlap,     ///< a copy onto memory that it still reads
  implicit_sync,    ///< a call inside a stream scope that makes all streams wait for each other
  leak,             ///< still there at the end
};
[[nodiscard]] std::string_view name_of(CheckKind kind) noexcept;
inline constexpr std::array kCheckKinds = {CheckKind::race,
                                           CheckKind::use_after_free,
                                           CheckKind::early_reuse,
                                           CheckKind::undeclared_use,
                                           CheckKind::unwritten_read,
                                           CheckKind::unrecorded_wait,
                                           CheckKind::dead_event,
                                           CheckKind::host_race,
                                           CheckKind::pageable_copy,
                                           CheckKind::copy_overlap,
                                           CheckKind::implicit_sync,
                                           CheckKind::leak};

/// One of the accesses in a report.
struct CheckedAccess {
  std::string operation;  ///< its name, with the name scopes around it
  std::string lane;       ///< the stream, such as "group 2 h2d"
  AccessMode mode;
  std::uintptr_t begin;
  std::size_t bytes;
  std::source_location issued_at;
  std::source_location scope_opened_at;  ///< line 0: outside all scopes

  [[nodiscard]] std::string text() const;
};

/// One finding, and how often it was made.
struct CheckReport {
  CheckKind kind;
  std::string message;                  ///< a sentence
  std::optional<CheckedAccess> first;   ///< the earlier one to be issued
  std::optional<CheckedAccess> second;  ///< the one at which it was found
  std::string missing;                  ///< what would make it right
  std::uint64_t times = 1;

  [[nodiscard]] std::string text() const;
  /// Whether it says the same of the same operations.
  [[nodiscard]] bool same_as(CheckReport const& other) const noexcept;
};

/// `{"reports": […]}`; the fields are those of CheckReport and CheckedAccess.
[[nodiscard]] std::string json_of(std::vector<CheckReport> const& reports);

/// Thrown where a checking runtime finds something, if it is to throw.
class RaceError : public std::logic_error {
 public:
  explicit RaceError(CheckReport report)
      : std::logic_error(report.text()), report_(std::move(report)) {}
  [[nodiscard]] CheckReport const& report() const noexcept { return report_; }

 private:
  CheckReport report_;
};

}  // namespace msstream
