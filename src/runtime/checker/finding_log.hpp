// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

namespace msstream::detail {

/// The findings of a checker: keeps, prints and throws them. Thread-safe.
class FindingLog {
 public:
  explicit FindingLog(CheckerOptions options) : options_(std::move(options)) {}
  FindingLog(FindingLog const&) = delete;
  FindingLog& operator=(FindingLog const&) = delete;
  ~FindingLog();

  [[nodiscard]] bool throws() const noexcept { return options_.mode == CheckMode::throw_error; }
  /// Keeps all findings, and prints them unless the mode is to count. If the mode is to throw,
  /// throws the first one instead of printing it.
  void publish(std::vector<CheckReport> findings);
  /// Like publish(), but throws nothing: if the mode is to throw, prints all findings to stderr.
  void publish_quietly(std::vector<CheckReport> const& findings) noexcept;

  [[nodiscard]] std::vector<CheckReport> reports() const;
  [[nodiscard]] std::uint64_t count() const;
  [[nodiscard]] std::uint64_t count(CheckKind kind) const;
  void clear();
  /// Writes the report file, if one was requested, with the findings of all logs that write to that
  /// file. A failure is printed to stderr.
  void write_file() const noexcept;
  /// Returns the number of findings of the process that were published where nothing may be thrown.
  [[nodiscard]] static std::uint64_t quiet_findings() noexcept;

 private:
  void keep(CheckReport const& finding, bool tell);

  CheckerOptions const options_;
  mutable std::mutex mutex_;
  std::vector<CheckReport> kept_;
  std::array<std::uint64_t, kCheckKinds.size()> counts_{};  ///< the number of findings of each kind
};

}  // namespace msstream::detail
