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

/// The kinds of findings of a checking runtime.
enum class CheckKind : std::uint8_t {
  /// Two accesses to the same bytes, at least one a write, of which neither is ordered before the
  /// other.
  race,
  use_after_free,  ///< a use of memory that its allocator holds and has not given out
  early_reuse,     ///< memory given out or freed while the device may still use it
  /// A copy or fill, inside an operation, of memory that the operation does not declare for it.
  undeclared_use,
  unwritten_read,   ///< a read of memory of which no byte was written since it was given out
  unrecorded_wait,  ///< a wait for an event that was never recorded: it orders nothing
  dead_event,       ///< a use of an event that was destroyed
  /// A use of pinned memory by the host before it has seen the device's accesses complete.
  host_race,
  pageable_copy,  ///< a copy from or to host memory that is not pinned: it blocks the host
  copy_overlap,   ///< a copy between two overlapping ranges
  implicit_sync,  ///< a call inside a stream scope that makes all streams wait for each other
  leak,           ///< a stream, event or allocation that still exists at the end
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

/// An access that a report describes.
struct CheckedAccess {
  std::string operation;  ///< the operation's name, prefixed by the enclosing name scopes
  std::string lane;       ///< the name of the stream, such as "group 2 h2d"
  AccessMode mode;
  std::uintptr_t begin;
  std::size_t bytes;
  std::source_location issued_at;
  std::source_location scope_opened_at;  ///< line 0 if the access is outside all scopes

  [[nodiscard]] std::string text() const;
};

/// A finding, and the number of times that it was made.
struct CheckReport {
  CheckKind kind;
  std::string message;                  ///< a sentence that describes the finding
  std::optional<CheckedAccess> first;   ///< the access that was issued first
  std::optional<CheckedAccess> second;  ///< the access at which the problem was found
  /// The change to the program that would prevent the finding.
  std::string missing;
  std::uint64_t times = 1;

  [[nodiscard]] std::string text() const;
  /// Returns whether both reports have the same kind and the same operations, streams, access modes
  /// and issue locations. If neither has an access, compares the messages instead.
  [[nodiscard]] bool same_as(CheckReport const& other) const noexcept;
};

/// Returns `{"reports": […]}`, with the fields of CheckReport and CheckedAccess. The lane of an
/// access is called "stream".
[[nodiscard]] std::string json_of(std::vector<CheckReport> const& reports);

/// The exception that a checking runtime throws at a finding if its mode is CheckMode::throw_error.
class RaceError : public std::logic_error {
 public:
  explicit RaceError(CheckReport report)
      : std::logic_error(report.text()), report_(std::move(report)) {}
  [[nodiscard]] CheckReport const& report() const noexcept { return report_; }

 private:
  CheckReport report_;
};

}  // namespace msstream
