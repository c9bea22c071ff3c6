// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/by_memory.hpp"
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

/// The gradients of all dense parameters in one backward, in buckets whose all-reduce is issued
/// when their gradients are complete. While it lives, the tape calls it. A gradient is complete
/// when it exists and every operation that read its parameter has been played back; an operation
/// that noted none of its inputs may have read any.
class GradientBuckets final : public GradientWatch {
 public:
  GradientBuckets(AnyTape& tape,
                  Parameters<AnyRuntime> const& parameters,
                  comm::detail::AnyCommunicator const& communicator,
                  DataParallelOptions const& options,
                  std::source_location issued_at);
  GradientBuckets(GradientBuckets const&) = delete;
  GradientBuckets& operator=(GradientBuckets const&) = delete;
  ~GradientBuckets() override;

  void before_gradient(MemoryRange const& elements) override;
  void after_operation(std::size_t left) override;
  /// Issues the buckets that are left, exchanges the rows of tables, and puts all results on the
  /// tape.
  void finish();

 private:
  struct Part {
    std::string name;
    Floats parameter;
    std::size_t reader;  ///< the index of the last operation to be played back that read it
    std::optional<Floats> reduced;
  };
  using Bucket = std::vector<Part>;

  void find_readers(TapeState const& state);
  [[nodiscard]] bool is_complete(Part const& part, std::size_t left) const;
  void issue(Bucket& bucket);
  void require_all() const;
  void replace();

  AnyTape& tape_;
  comm::detail::AnyCommunicator communicator_;
  comm::Reduction reduction_;
  std::source_location issued_at_;
  std::vector<Bucket> buckets_;
  ByMemory<Part*> parts_;
  std::vector<NamedTable> tables_;
  std::size_t issued_ = 0;  ///< the number of buckets whose all-reduce is issued
};

}  // namespace msstream::detail
