// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "dense/column_sums.hpp"
#include "mixed/fused_cross.cuh"
#include "mixed/fused_cross.hpp"
#include "runtime/cuda/driver_call_cuda.hpp"

#include <msstream/base/error.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <mutex>

namespace msstream::ops::kernels {
namespace {

using EncodeMap = decltype(&cuTensorMapEncodeTiled);

/// The means of a device to run the fused kernels.
struct FusedDevice {
  EncodeMap encode = nullptr;  ///< null: nothing
  int clusters = 0;            ///< of two blocks, as many as multiprocessors hold
};

/// Calls use(kernel) for each fused kernel.
template <class Use>
void for_each_kernel(Use const& use) {
  use(fused_cross_kernel<bfloat16, CrossStage::forward>);
  use(fused_cross_kernel<bfloat16, CrossStage::gradient>);
  use(fused_cross_kernel<bfloat16, CrossStage::last_gradient>);
  use(fused_cross_kernel<float16, CrossStage::forward>);
  use(fused_cross_kernel<float16, CrossStage::gradient>);
  use(fused_cross_kernel<float16, CrossStage::last_gradient>);
}

[[nodiscard]] FusedDevice find_device(int ordinal) {
  auto const attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
    return value;
  };
  constexpr unsigned kVersion = 12000;  // the first CUDA with tensor maps
  FusedDevice device;
  if (attribute(cudaDevAttrComputeCapabilityMajor) != 9 ||
      !detail::find_driver_call(device.encode, "cuTensorMapEncodeTiled", kVersion)) {
    return {};
  }
  device.clusters = attribute(cudaDevAttrMultiProcessorCount) / 2;
  constexpr auto kMostBytes = static_cast<int>(CrossMemory::bytes(kMostBoxes));
  if (kMostBytes > attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) {
    return {};
  }
  bool is_compiled = true;
  for_each_kernel([&](auto* kernel) {
    // Code for other instruction sets than sm_90a has an empty kernel, with few registers.
    cudaFuncAttributes attributes{};
    check_cuda(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
    is_compiled = is_compiled && attributes.numRegs > 64;
    check_cuda(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes),
        "cudaFuncSetAttribute");
  });
  return is_compiled ? device : FusedDevice{};
}

/// Returns what the device of a stream can do, which is found out once.
[[nodiscard]] FusedDevice device_of(CudaStream stream) {
  constexpr std::size_t kMostDevices = 64;
  struct Known {
    std::once_flag once;
    FusedDevice device;
  };
  static std::array<Known, kMostDevices> known;
  auto const ordinal = static_cast<std::size_t>(stream.libraries->ordinal);
  if (ordinal >= kMostDevices) {
    return {};
  }
  std::call_once(known[ordinal].once,
                 [&] { known[ordinal].device = find_device(static_cast<int>(ordinal)); });
  return known[ordinal].device;
}

/// Returns a description of a matrix [rows, columns] of half precision for copies of boxes of 64
/// columns.
[[nodiscard]] CUtensorMap map_of(EncodeMap encode,
                                 void const* matrix,
                                 std::int64_t rows,
                                 std::int64_t columns,
                                 unsigned box_rows,
                                 DType dtype) {
  constexpr unsigned kHalfBytes = 2;
  cuuint64_t const sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  cuuint64_t const strides[] = {static_cast<cuuint64_t>(columns) * kHalfBytes};
  cuuint32_t const box[] = {kBoxElements, box_rows};
  cuuint32_t const steps[] = {1, 1};
  CUtensorMap map{};
  auto const code = encode(
      &map,
      dtype == DType::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      2,
      const_cast<void*>(matrix),
      sizes,
      strides,
      box,
      steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    throw RuntimeError("CUDA", static_cast<int>(code), "no tensor map", "cuTensorMapEncodeTiled");
  }
  return map;
}

/// Returns the ranges of tiles that clusters share. Clusters that work on the same rows read them
/// again, which takes about as long as the fraction of a tile.
[[nodiscard]] int ranges_of(int pairs, int tiles, int clusters) {
  constexpr double kTilesOfRows = 0.7;
  int best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int ranges = 1; ranges <= tiles; ++ranges) {
    double const turns = ceil_div(pairs * ranges, clusters);
    double const time = turns * (ceil_div(tiles, ranges) + kTilesOfRows);
    if (time < least) {
      least = time;
      best = ranges;
    }
  }
  return best;
}

/// Launches a fused kernel for rows [rows, inner] and a weight, [inner, columns] in the forward and
/// otherwise [columns, inner].
template <CrossStage Stage>
void launch_fused(CudaStream stream,
                  void const* left,
                  void const* weight,
                  FusedCross args,
                  CrossShape const& shape) {
  auto const device = device_of(stream);
  args.rows = static_cast<int>(shape.rows);
  args.columns = static_cast<int>(shape.columns);
  args.boxes = static_cast<int>(ceil_div<std::int64_t>(shape.inner, kBoxElements));
  args.tiles = ceil_div(args.columns, kTileColumns);
  args.pairs = ceil_div(args.rows, kPairRows);
  args.ranges = ranges_of(args.pairs, args.tiles, device.clusters);
  constexpr bool kForward = Stage == CrossStage::forward;
  auto const rows_map =
      map_of(device.encode, left, shape.rows, shape.inner, kBlockRows, shape.dtype);
  auto const weight_map = map_of(device.encode,
                                 weight,
                                 kForward ? shape.inner : shape.columns,
                                 kForward ? shape.columns : shape.inner,
                                 kBoxElements,
                                 shape.dtype);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim =
      dim3(static_cast<unsigned>(2 * std::min(device.clusters, args.pairs * args.ranges)));
  config.blockDim = dim3(kCrossThreads);
  config.dynamicSmemBytes = CrossMemory::bytes(args.boxes);
  config.stream = stream.handle;
  config.attrs = &cluster;
  config.numAttrs = 1;
  auto* const kernel = shape.dtype == DType::bfloat16 ? fused_cross_kernel<bfloat16, Stage>
                                                      : fused_cross_kernel<float16, Stage>;
  check_cuda(cudaLaunchKernelEx(&config, kernel, rows_map, weight_map, args), "fused_cross");
}

}  // namespace

bool fits_fused_cross(CrossStage stage, CrossShape const& shape) {
  constexpr std::int64_t kMultiple = 8;  // elements of 16 bytes
  constexpr std::int64_t kMostRows = std::int64_t{1} << 30;
  // With 256 to 32,768 rows, 128 to 6,912 columns and 256 to 512 terms, fused kernels are faster on
  // an H200 if there are so many elements: 0.8 to 1.0 of the time, with few exceptions up to 1.1.
  constexpr std::int64_t kMega = std::int64_t{1} << 20;
  auto const least = stage == CrossStage::forward    ? 2 * kMega
                     : stage == CrossStage::gradient ? 8 * kMega
                                                     : 4 * kMega;
  return shape.dtype != DType::float32 && shape.inner > 0 &&
         shape.inner <= kMostBoxes * kBoxElements && shape.inner % kMultiple == 0 &&
         shape.columns % kMultiple == 0 && shape.rows <= kMostRows && shape.columns <= kMostRows &&
         shape.rows * shape.columns >= least;
}

bool fuses_cross_products(CudaStream stream, CrossStage stage, CrossShape const& shape) {
  return fits_fused_cross(stage, shape) && device_of(stream).encode != nullptr;
}

void fused_cross_forward(CudaStream stream, CrossForwardArgs const& args) {
  launch_fused<CrossStage::forward>(stream,
                                    args.hidden,
                                    args.up,
                                    {.factors = {args.first, args.input},
                                     .bias = args.bias,
                                     .product = args.projected,
                                     .output = args.output},
                                    args.shape);
}

void fused_cross_gradient(CudaStream stream, CrossGradientArgs const& args) {
  auto* const partial_sums = static_cast<float*>(args.workspace);
  launch_fused<CrossStage::gradient>(stream,
                                     args.gradient,
                                     args.down,
                                     {.factors = {args.first, args.added},
                                      .bias = nullptr,
                                      .product = args.sum,
                                      .output = args.projected,
                                      .partial_sums = partial_sums},
                                     args.shape);
  column_sums(stream,
              {.matrix = partial_sums,
               .rows = fused_cross_partial_rows(args.shape.rows),
               .columns = args.shape.columns,
               .sums = args.column_sums});
}

void fused_cross_last_gradient(CudaStream stream, CrossLastGradientArgs const& args) {
  FusedCross fused{};
  fused.output = args.input_gradient;
  for (int i = 0; i < kMostCrossLayers; ++i) {
    fused.factors[2 * i] = args.layers[i].output_gradient;
    fused.factors[2 * i + 1] = args.layers[i].projected;
  }
  launch_fused<CrossStage::last_gradient>(stream, args.gradient, args.down, fused, args.shape);
}

}  // namespace msstream::ops::kernels
