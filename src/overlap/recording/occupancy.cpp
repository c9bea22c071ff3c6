// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/occupancy.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

namespace msstream::overlap {
namespace {

/// The limits of one multiprocessor.
struct Limits {
  std::int64_t blocks;
  std::int64_t threads;
  std::int64_t registers;
  std::int64_t shared_bytes;
  int sms;
};

/// The part of a multiprocessor that one block takes.
struct BlockNeeds {
  std::int64_t threads;
  std::int64_t registers;
  std::int64_t shared_bytes;
};

constexpr std::int64_t kAssumedSharedBytes = 233'472;
constexpr std::int64_t kReservedSharedBytes = 1'024;  ///< of each block, by the driver

std::int64_t known(std::int64_t value, std::int64_t otherwise) {
  return value > 0 ? value : otherwise;
}

/// CUDA C++ Programming Guide, table of technical specifications per compute capability.
Limits limits_of(Device const& device) {
  int const capability = device.major > 0 ? 10 * device.major + std::max(device.minor, 0) : 90;
  bool const small = capability == 75 || capability == 86 || capability == 87 || capability == 89 ||
                     capability >= 120;
  std::int64_t const blocks = capability == 75 || capability == 86 || capability == 87 ? 16
                              : small                                                  ? 24
                                                                                       : 32;
  std::int64_t const threads = capability == 75 ? 1'024 : small ? 1'536 : 2'048;
  return {known(device.blocks_per_sm, blocks),
          known(device.threads_per_sm, threads),
          known(device.registers_per_sm, 65'536),
          known(device.shared_bytes_per_sm, kAssumedSharedBytes),
          device.sms > 0 ? device.sms : kAssumedSms};
}

std::int64_t rounded_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

std::optional<std::int64_t> product(std::array<int, 3> const& sizes) {
  std::int64_t result = 1;
  for (auto const size : sizes) {
    if (size <= 0) {
      return std::nullopt;
    }
    result *= size;
  }
  return result;
}

std::optional<BlockNeeds> needs_of(LaunchShape const& shape) {
  auto const threads = product(shape.block);
  if (!threads) {
    return std::nullopt;
  }
  auto const warps = (*threads + 31) / 32;
  std::int64_t const registers =
      shape.registers_per_thread > 0
          ? warps * rounded_up(std::int64_t{32} * shape.registers_per_thread, 256)
          : 0;
  return BlockNeeds{
      32 * warps, registers, std::max<std::int64_t>(shape.shared_bytes, 0) + kReservedSharedBytes};
}

/// Returns how many blocks fit into `free`, and what limits them.
std::pair<std::int64_t, SmResource> fitting(Limits const& free, BlockNeeds const& needs) {
  std::pair<std::int64_t, SmResource> least{free.blocks, SmResource::blocks};
  auto const limit = [&](std::int64_t blocks, SmResource resource) {
    if (blocks < least.first) {
      least = {std::max<std::int64_t>(blocks, 0), resource};
    }
  };
  limit(free.threads / needs.threads, SmResource::threads);
  if (needs.registers > 0) {
    limit(free.registers / needs.registers, SmResource::registers);
  }
  limit(free.shared_bytes / needs.shared_bytes, SmResource::shared_memory);
  return least;
}

}  // namespace

char const* text_of(SmResource resource) noexcept {
  switch (resource) {
    case SmResource::blocks:
      return "blocks";
    case SmResource::threads:
      return "threads";
    case SmResource::registers:
      return "registers";
    case SmResource::shared_memory:
      return "shared memory";
  }
  return "";
}

int Occupancy::wanted_sms() const noexcept {
  // Blocks go to different multiprocessors first.
  return static_cast<int>(std::clamp<std::int64_t>(blocks, 1, sms));
}

int Occupancy::filled_sms() const noexcept {
  auto const fit = std::max<std::int64_t>(blocks_per_sm, 1);
  return static_cast<int>(std::clamp<std::int64_t>((blocks + fit - 1) / fit, 1, sms));
}

std::optional<Occupancy> occupancy_of(Device const& device, LaunchShape const& shape) {
  auto const blocks = product(shape.grid);
  auto const needs = needs_of(shape);
  if (!blocks || !needs) {
    return std::nullopt;
  }
  auto const limits = limits_of(device);
  auto const [per_sm, limit] = fitting(limits, *needs);
  auto const at_once = std::max<std::int64_t>(per_sm, 1);
  auto const registers = static_cast<double>(at_once * needs->registers);
  return Occupancy{
      *blocks, at_once, limit, limits.sms, registers / static_cast<double>(limits.registers)};
}

std::optional<SmResource> lacking(Device const& device,
                                  LaunchShape const& running,
                                  LaunchShape const& held) {
  auto const occupancy = occupancy_of(device, running);
  auto const needs = needs_of(held);
  auto const used = needs_of(running);
  if (!occupancy || !used || occupancy->blocks < occupancy->sms) {
    return std::nullopt;
  }
  if (occupancy->fills()) {
    return occupancy->limit;
  }
  if (!needs) {
    return std::nullopt;
  }
  auto const resident = std::min(occupancy->blocks_per_sm, occupancy->blocks / occupancy->sms);
  auto free = limits_of(device);
  free.blocks -= resident;
  free.threads -= resident * used->threads;
  free.registers -= resident * used->registers;
  free.shared_bytes -= resident * used->shared_bytes;
  auto const [fits, limit] = fitting(free, *needs);
  return fits == 0 ? std::optional(limit) : std::nullopt;
}

bool lacks_room_for_all(Device const& device, LaunchShape const& running, LaunchShape const& held) {
  auto const used = occupancy_of(device, running);
  auto const wanted = occupancy_of(device, held);
  if (!used || !wanted || !wanted->is_one_wave()) {
    return false;
  }
  // Blocks go to different multiprocessors first.
  auto const taken = std::min<std::int64_t>(used->blocks, used->sms);
  auto const resident = std::min(used->blocks_per_sm, (used->blocks + taken - 1) / taken);
  auto const block = *needs_of(running);
  auto free = limits_of(device);
  free.blocks -= resident;
  free.threads -= resident * block.threads;
  free.registers -= resident * block.registers;
  free.shared_bytes -= resident * block.shared_bytes;
  auto const beside = fitting(free, *needs_of(held)).first;
  return wanted->blocks > taken * beside + (used->sms - taken) * wanted->blocks_per_sm;
}

}  // namespace msstream::overlap
