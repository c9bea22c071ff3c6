// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

namespace msstream::detail {

/// Keeps, prints and throws the findings of a checker. Thread-safe.
class FindingLog {
 public:
  explicit FindingLog(CheckerOptions options) : options_(std::move(options)) {}
  FindingLog(FindingLog const&) = delete;
  FindingLog& operator=(FindingLog const&) = delete;
  ~FindingLog();

  [[nodiscard]] bool throws() const noexcept { return options_.mode == CheckMode::throw_error; }
  /// Keeps all findings. In throwing mode, throws the first finding and prints the others; in
  /// printing mode, prints all; in counting mode, prints none.
  void publish(std::vector<CheckReport> findings);
  /// Keeps all findings, like publish(), but throws nothing: in throwing mode, prints all findings
  /// to stderr.
  void publish_quietly(std::vector<CheckReport> const& findings) noexcept;

  [[nodiscard]] std::vector<CheckReport> reports() const;
  [[nodiscard]] std::uint64_t count() const;
  [[nodiscard]] std::uint64_t count(CheckKind kind) const;
  void clear();
  /// Writes the report file, if the options request one. The file contains the findings of all
  /// checkers of the process that write to the same file. Prints a failure to stderr.
  void write_file() const noexcept;
  /// Returns the number of findings in this process that were published where nothing may be
  /// thrown, such as in a destructor.
  [[nodiscard]] static std::uint64_t quiet_findings() noexcept;

 private:
  void keep(CheckReport const& finding, bool tell);

  CheckerOptions const options_;
  mutable std::mutex mutex_;
  std::vector<CheckReport> kept_;
  std::array<std::uint64_t, kCheckKinds.size()> counts_{};  ///< the number of findings of each kind
};

}  // namespace msstream::detail
