// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/report.hpp"

#include <string>
#include <vector>

namespace msstream::overlap {

/// The least shares of the window from which on time is worth a finding.
struct LeastShares {
  double any = 0.02;
  /// Slow launches and other work of the host: some idle time at the start of a program's steps is
  /// usual.
  double host = 0.05;
  /// Steps between queued kernels: some are in every program.
  double steps = 0.1;
  /// Time that a recording does not explain.
  double unknown = 0.05;
  /// Chains of work that needs each other.
  double chain = 0.2;
  double chain_beside = 0.05;  ///< likewise, if there are other findings
  /// Kernels that fill the device and gain nothing from each other, if nothing else was found.
  double full = 0.2;
};

/// Returns the findings of a device, the largest first, with the intervals of the ledger, which
/// then has no more.
[[nodiscard]] std::vector<Finding> findings_of(Program const& program,
                                               Ledger& ledger,
                                               Index device,
                                               Interval window,
                                               LeastShares const& least);

/// Whether a finding is predicted to gain nothing.
[[nodiscard]] bool gains_nothing(Finding const& finding);

/// Orders findings: the largest loss first, of which guesses count half, and of nearly equal ones
/// the one with the largest gain; after all others those that are predicted to gain nothing, and
/// chains of work that needs each other last.
void sort_findings(std::vector<Finding>& findings);

/// Whether more than one stream of a device has a noticeable part of its work.
[[nodiscard]] bool has_several_streams(Program const& program, Index device, Interval window);

/// Returns the time that the busiest stream of a device works.
[[nodiscard]] Ns longest_work(Program const& program, Index device, Interval window);

/// Returns the sum behind a finding.
[[nodiscard]] CauseSum const& sum_of(Ledger const& ledger, Cause cause);

/// Marks the findings that would partly gain the same time.
void mark_shared_gains(std::vector<Finding>& findings);

/// Returns a device's use in a few words, such as "one stream, launch-bound: 8% busy".
[[nodiscard]] std::string verdict(Program const& program,
                                  Ledger const& ledger,
                                  Index device,
                                  Interval window,
                                  std::vector<Finding> const& findings);

}  // namespace msstream::overlap
