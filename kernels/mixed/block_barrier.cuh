// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Barriers in shared memory (`mbarrier` of PTX), by which warps of a block, or of a pair of blocks
/// in a cluster, tell each other that a piece of shared memory is filled or free. For compute
/// capability 9.0 and newer.
namespace msstream::ops::kernels {

/// Returns the address of shared memory as PTX counts it.
__device__ inline std::uint32_t shared_address(void const* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// A barrier at an address of shared memory, 8 bytes, aligned to 8. It counts phases from 0. A
/// phase ends when the barrier has got its arrivals and the bytes that it expects.
class BlockBarrier {
 public:
  static constexpr std::uint32_t kBytes = 8;

  __device__ explicit BlockBarrier(std::uint32_t address) : address_(address) {}

  /// To be called by one thread, before publish_barriers().
  __device__ void initialise(std::uint32_t arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_), "r"(arrivals));
  }
  /// Arrives, and lets the phase last until so many bytes have been copied.
  __device__ void arrive_and_expect(std::uint32_t bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_),
                 "r"(bytes)
                 : "memory");
  }
  __device__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_) : "memory");
  }
  /// Arrives at the barrier that has this address in another block of the cluster, or in this one.
  __device__ void arrive_at(std::uint32_t block_of_cluster) const {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
        "}" ::"r"(address_),
        "r"(block_of_cluster)
        : "memory");
  }
  /// Waits until the latest phase of this parity has ended: 0 for phases 0, 2, …, and 1 for phases
  /// 1, 3, …; before phase 1 has ended, "the latest phase of parity 1" is one before the first, so
  /// that the call returns. The caller must not lag behind the barrier by more than a phase.
  __device__ void wait(std::uint32_t parity) const {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(address_),
        "r"(parity)
        : "memory");
  }

  [[nodiscard]] __device__ std::uint32_t address() const { return address_; }

 private:
  std::uint32_t address_;
};

/// Makes initialised barriers visible to the copy engine and to the other blocks of a cluster. To
/// be called by the thread that has initialised them, before the cluster is synchronised.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Waits for all threads of the cluster's blocks.
__device__ inline void synchronise_cluster() {
  asm volatile(
      "barrier.cluster.arrive.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}

/// Returns the calling block's number in its cluster.
__device__ inline std::uint32_t block_of_cluster() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// A place in a ring of pieces of shared memory, with the parity of the round.
struct RingPlace {
  std::uint32_t slot = 0;
  std::uint32_t parity = 0;

  __device__ void advance(std::uint32_t slots) {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

}  // namespace msstream::ops::kernels
