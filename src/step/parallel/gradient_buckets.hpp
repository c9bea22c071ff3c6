// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/mail/row_buffers.hpp"
#include "step/by_memory.hpp"
#include "step/parallel/part_sums.hpp"
#include "step/parallel/row_exchange.hpp"
#include "step/tape_state.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/step/data_parallel.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::detail {

/// The gradients of all parameters in one step, those of dense parameters in buckets. The step has
/// one part or several, each with a backward, of which the last is watched: the exchange of a
/// bucket with the other ranks is issued as soon as its gradients are complete. A gradient is
/// complete when it exists and every operation that read its parameter has been played back; an
/// operation that noted none of its inputs may have read any.
class GradientBuckets final : public GradientWatch {
 public:
  /// The gradients of all parameters, over all ranks.
  struct Gradients {
    std::vector<Floats> dense;
    RowsOfPart rows;
  };

  /// `parts_of_all` is the number of parts of all ranks, of whose gradients the mean is taken.
  GradientBuckets(AnyTape& tape,
                  Parameters<AnyRuntime> const& parameters,
                  comm::detail::AnyCommunicator const& communicator,
                  DataParallelOptions const& options,
                  int parts_of_all,
                  comm::detail::RowBuffers& buffers,
                  std::source_location issued_at);
  GradientBuckets(GradientBuckets const&) = delete;
  GradientBuckets& operator=(GradientBuckets const&) = delete;
  ~GradientBuckets() override;

  void before_gradient(MemoryRange const& elements) override;
  [[nodiscard]] bool takes_pooled(MemoryRange const& table, Floats const& gradient) override;
  [[nodiscard]] bool wants_pooled(ops::EmbeddingTables<AnyRuntime> const& tables) const override;
  [[nodiscard]] bool takes_pooled(ops::EmbeddingTables<AnyRuntime> const& tables,
                                  Floats const& gradient) override;
  void after_operation(std::size_t left) override;
  /// Takes the gradients of a part that is not the last one off the tape, and keeps their sums. If
  /// the part has no samples, they are zeros.
  void keep_part(bool has_samples);
  /// Begins to watch the backward of the last part, which is recorded and not yet played back. If
  /// it is the only part of this rank, gathers the ids of its lookups.
  void watch_last_part();
  /// Ends the last part. Issues the buckets that are left, and exchanges the rows of tables. Those
  /// of outputs of lookups go before the last bucket: more follows them until the update.
  void exchange(bool has_samples);
  /// Puts the gradients over all ranks on the tape, in the place of this rank's, after those in
  /// `before`, which are added.
  void put_on_tape(std::optional<Gradients> const& before = std::nullopt);
  /// Takes all gradients off the tape, and returns those over all ranks.
  [[nodiscard]] Gradients take();

 private:
  struct Part {
    std::string name;
    Floats parameter;
    std::size_t reader;  ///< the index of the last operation to be played back that read it
    std::optional<Floats> reduced;
  };
  struct Bucket {
    std::vector<Part> parts;
    PartSums sums;
  };

  void find_readers(TapeState const& state);
  [[nodiscard]] bool is_complete(Part const& part, std::size_t left) const;
  /// Returns the gradients of a bucket on the tape, one after the other, or as many zeros.
  [[nodiscard]] Floats in_one(Bucket const& bucket, bool has_samples) const;
  void issue(Bucket& bucket, bool has_samples);
  /// Issues all buckets but the last `but`.
  void issue_buckets(std::size_t but, bool has_samples);
  /// Returns the mean or the sum of all parts, from the sum of this rank's parts.
  [[nodiscard]] Floats over_all_parts(Floats const& own) const;
  void keep_rows(bool has_samples);
  void take_off(AnyTensor const& parameter);
  void require_all() const;

  AnyTape& tape_;
  comm::detail::AnyCommunicator communicator_;
  DataParallelOptions options_;
  int parts_of_all_;
  comm::detail::RowBuffers& row_buffers_;
  std::source_location issued_at_;
  std::vector<Bucket> buckets_;
  ByMemory<Part*> parts_;
  std::vector<NamedTable> tables_;
  std::vector<RowsOfPart> rows_;  ///< of this rank's parts so far
  GradientsAhead ahead_;          ///< of the tables, or empty
  std::size_t issued_ = 0;        ///< the number of buckets whose all-reduce is issued
  std::size_t held_back_ = 0;     ///< the last buckets that wait for the exchange of rows
};

}  // namespace msstream::detail
