// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/read/recording_builder.hpp"
#include "overlap/read/trace_event.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// Tells the processes of a merged file apart: traces of several ranks in one list of events.
///
/// Merging tools mark events by a field "rank" in their arguments, or by numbers of processes that
/// are texts, such as "[TP01] 4711". Otherwise, the numbers of processes tell calls apart, and the
/// correlation of work names the call that issued it. If calls of several processes have that
/// correlation, the process that alone uses the device counts, and then the order of the file.
class Processes {
 public:
  /// The result of of() for an event that concerns all processes, and for one of a process
  /// without work of a device.
  static constexpr std::size_t kAll = ~std::size_t{0};
  static constexpr std::size_t kNobody = kAll - 1;

  /// The marks of events, which one reading of the file gathers.
  struct Marks {
    std::set<std::int64_t> ranks;
    std::map<std::int64_t, std::int64_t> rank_of_process;
    std::set<std::string, std::less<>> labels;

    void take(TraceEvent const& event);
  };

  Processes(Marks marks, RecordingBuilder const& builder);

  /// The number of processes that have work; 1 for a file that is not merged.
  [[nodiscard]] std::size_t count() const noexcept { return names_.size(); }
  /// The rank, or the place in the file's order if the file does not tell.
  [[nodiscard]] int rank_of(std::size_t process) const { return ranks_.at(process); }
  /// The name that the file has for the process: "rank 3", "[TP01]", "process 4711".
  [[nodiscard]] std::string const& name_of(std::size_t process) const { return names_.at(process); }
  /// How the processes are told apart, as a sentence.
  [[nodiscard]] std::string how() const;

  /// Returns the process of an event. Events must come in the order of the file.
  [[nodiscard]] std::size_t of(TraceEvent const& event);

 private:
  enum class By : std::uint8_t { nothing, rank, label, process };
  using Issuer = std::pair<Correlation, std::size_t>;

  void find_processes(RecordingBuilder const& builder);
  template <class IssuersOf>
  void find_owners(RecordingBuilder const& builder, IssuersOf issuers_of);
  [[nodiscard]] std::size_t of_process(TraceEvent const& event);
  [[nodiscard]] std::size_t of_work(TraceEvent const& event);
  [[nodiscard]] std::size_t owner_of(std::int64_t device) const;

  By by_ = By::nothing;
  Marks marks_;
  std::vector<std::string> names_;
  std::vector<int> ranks_;
  std::map<std::int64_t, std::size_t> by_number_;  ///< rank or process
  std::vector<Issuer> issuers_;                    ///< by correlation
  std::map<std::int64_t, std::size_t> owners_;     ///< of devices that one process uses
  std::size_t last_ = 0;                           ///< of the last call or operation
  std::uint64_t by_order_ = 0;                     ///< activities that the order of the file gave
};

}  // namespace msstream::overlap
