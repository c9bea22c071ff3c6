// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

namespace msstream::detail {

/// What was found: kept, told, thrown. Thread-safe.
class FindingLog {
 public:
  explicit FindingLog(CheckerOptions options) : options_(std::move(options)) {}
  FindingLog(FindingLog const&) = delete;
  FindingLog& operator=(FindingLog const&) = delete;
  ~FindingLog();

  [[nodiscard]] bool throws() const noexcept { return options_.mode == CheckMode::throw_error; }
  /// Keeps and tells all, then throws the first if the mode is to throw.
  void publish(std::vector<CheckReport> findings);
  /// The same for where nothing may be thrown: told on stderr instead.
  void publish_quietly(std::vector<CheckReport> const& findings) noexcept;

  [[nodiscard]] std::vector<CheckReport> reports() const;
  [[nodiscard]] std::uint64_t count() const;
  [[nodiscard]] std::uint64_t count(CheckKind kind) const;
  void clear();
  /// Writes the report file, if one was asked for, with the findings of all logs that were told to
  /// write there; a failure is told on stderr.
  void write_file() const noexcept;
  /// How many findings of the process were told where nothing may be thrown.
  [[nodiscard]] static std::uint64_t quiet_findings() noexcept;

 private:
  void keep(CheckReport const& finding, bool tell);

  CheckerOptions const options_;
  mutable std::mutex mutex_;
  std::vector<CheckReport> kept_;
  std::array<std::uint64_t, kCheckKinds.size()> counts_{};  ///< by kind
};

}  // namespace msstream::detail
