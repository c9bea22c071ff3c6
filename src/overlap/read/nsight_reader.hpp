// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/read/call_chains.hpp"
#include "overlap/read/recording_builder.hpp"
#include "overlap/read/sqlite_database.hpp"
#include "overlap/read/work_names.hpp"
#include "overlap/recording/counted.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// Returns an identifier of an export; kUnknown if it is missing or not above 0.
inline std::int64_t positive(std::optional<std::int64_t> number) {
  return number && *number > 0 ? *number : kUnknown;
}

/// Reads the tables of an export of Nsight Systems. Numbers of enumerations are those of its
/// ENUM_… tables, which have been the same since 2020.
class NsightReader {
 public:
  /// `progress` gets the rows read and the number of rows.
  NsightReader(std::filesystem::path const& file,
               std::function<void(std::int64_t, std::int64_t)> progress);

  [[nodiscard]] std::vector<Recording> read();

 private:
  /// A process, by the upper bits of its "globalPid" and of its threads' "globalTid".
  using ProcessKey = std::uint64_t;
  using Row = SqliteDatabase::Row;
  struct Process {
    RecordingBuilder builder;
    std::unordered_map<std::int64_t, RecordedEvent> records;  ///< by eventSyncId
    /// By event and context, in the order of their calls; of exports without eventSyncId.
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<RecordedEvent>> records_of_event;
    std::unordered_map<std::int64_t, int> devices;  ///< by context
    std::uint64_t waits = 0;
    std::uint64_t joined_waits = 0;
  };

  void check_kind();
  void check_columns() const;
  [[nodiscard]] std::string schema_text() const;
  [[nodiscard]] bool knows_schema() const;
  void read_strings();
  void read_call_chains();
  /// Reads a table of work: `take` gets each row, whose columns follow those that all such tables
  /// have, and an activity in which these are filled in.
  void read_work(std::string_view table,
                 std::vector<std::string_view> const& columns,
                 std::function<void(Row const&, RecordingBuilder&, Activity&)> const& take);
  void read_kernels();
  void read_copies();
  void read_fills();
  void read_graphs();
  void read_calls();
  void read_event_records();
  void read_syncs();
  void read_overheads();
  void read_ranges();
  void describe_streams();
  void describe_devices();
  void describe_processes();
  void note_missing(std::vector<std::string>& notes) const;
  [[nodiscard]] std::optional<std::int64_t> start_unix_ns() const;

  [[nodiscard]] ProcessKey key_of_pid(std::optional<std::int64_t> global_pid) const;
  [[nodiscard]] ProcessKey key_of_thread(std::int64_t global_tid) const;
  [[nodiscard]] Process& process(ProcessKey key) { return processes_[key]; }
  [[nodiscard]] Index thread_of(Process& process, std::int64_t global_tid) const;
  /// Returns a stream of a context. The device of a context is known from its work: in the tables
  /// of events and synchronisations it is often wrong.
  [[nodiscard]] static Index stream_of(Process& process,
                                       std::optional<std::int64_t> device,
                                       std::int64_t context,
                                       std::optional<std::int64_t> number);
  /// Returns the last recording of an event, of a context, before the call of a wait.
  [[nodiscard]] static std::optional<RecordedEvent> last_record(Process const& process,
                                                                std::int64_t event,
                                                                std::int64_t context,
                                                                std::int64_t wait);
  [[nodiscard]] std::string_view string(std::optional<std::int64_t> id) const;
  void leave_out(std::string_view table, std::optional<std::int64_t> correlation);
  [[nodiscard]] static bool is_in_range(std::optional<std::int64_t> begin,
                                        std::optional<std::int64_t> end);
  void read_rows(std::string_view table,
                 std::vector<std::string_view> const& columns,
                 std::function<void(Row const&)> const& take);

  std::string name_;
  SqliteDatabase database_;
  std::function<void(std::int64_t, std::int64_t)> progress_;
  std::int64_t rows_ = 0;
  std::int64_t all_rows_ = 0;
  std::string version_;
  std::string schema_;
  bool joins_by_event_ = false;  ///< waits with records, since there is no eventSyncId
  bool has_processes_ = true;    ///< whether work tells its process
  std::unordered_map<std::int64_t, std::string> strings_;
  CallChains chains_;  ///< with texts of strings_
  std::map<ProcessKey, Process> processes_;
  Counted without_time_;
};

}  // namespace msstream::overlap
