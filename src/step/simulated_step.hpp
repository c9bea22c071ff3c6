// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/auto_assignment.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace msstream {

/// The cost of each operation of a step on a device that it has to itself, in the order of the
/// trace. A copy takes its `device_ns`.
using StepCosts = std::vector<SimCost::Kernel>;

/// Returns the name of the communicator's stream on which an operation runs, whatever the groups of
/// the others: the stream of its own communicator for a collective, and of the group that the
/// operation was recorded on, such as a copy into a bucket of gradients. Empty for all others.
[[nodiscard]] std::string stream_of_communicator(StepTrace const& trace, std::size_t operation);

/// Returns the costs with which the step was traced. Collectives are like kernels: they have no
/// time on a link.
[[nodiscard]] StepCosts traced_costs(StepTrace const& trace, StepModel const& model);

/// Simulates the step on the given groups: returns the nanoseconds from its first call, or from the
/// launch of the graph, to its last end. Throws what streams_by() throws.
[[nodiscard]] double simulated_ns(StepTrace const& trace,
                                  StepGroups const& groups,
                                  StepModel const& model,
                                  StepCosts const& costs);

}  // namespace msstream
