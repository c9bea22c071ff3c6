// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <concepts>

namespace msstream {

/// A runtime that can capture the work given to streams as a graph, instead of running it. The
/// graph is then launched as one piece of work, any number of times.
///
/// - begin_capture: captures the stream from here on, as the origin of the capture. A stream that
///   waits for an event recorded on a captured stream is captured, too. Waits between captured
///   streams become the order of the graph; nothing else does. Other streams, on this thread and on
///   others, continue, and all calls that do not concern captured streams and their events may be
///   made meanwhile.
/// - Unsupported calls on a captured stream throw, and the capture can then only be ended:
///   waiting for an event from outside the capture, being waited for from outside, and queries or
///   waits by the host.
/// - is_capture_sound: returns whether the capture that the stream is part of can still become a
///   graph.
/// - end_capture: takes the origin, which must follow the work of all other captured streams.
///   Makes the graph, or throws; in both cases no stream is captured any more.
/// - abandon_capture: ends the capture in any state, and makes no graph.
/// - launch_graph: enqueues the work of the graph on the stream. Two launches of one graph must
///   be ordered one after the other, on the host as well as on the device.
/// - destroy_graph: requires that all launches of the graph are complete.
///
/// A closure that call_host puts on a captured stream runs at each launch of the graph, and is
/// destroyed with the graph.
template <class R>
concept CapturingRuntime = Runtime<R> &&
    requires(R runtime, typename R::native_stream stream, typename R::native_graph graph) {
  {runtime.begin_capture(stream)};
  { runtime.is_capture_sound(stream) } -> std::same_as<bool>;
  { runtime.end_capture(stream) } -> std::same_as<typename R::native_graph>;
  { runtime.abandon_capture(stream) }
  noexcept;
  {runtime.launch_graph(graph, stream)};
  { runtime.destroy_graph(graph) }
  noexcept;
};

namespace detail {

/// CUDA's error codes of captures: the first code, the code for a capture that an earlier call has
/// invalidated, and the last code. The host runtime uses the same codes.
inline constexpr int kCaptureUnsupported = 900;
inline constexpr int kCaptureInvalidated = 901;
inline constexpr int kCaptureWrongThread = 908;

/// A base class that has the type native_graph of the runtime R if R can capture, otherwise
/// nothing.
template <Runtime R>
struct GraphOf {};
template <CapturingRuntime R>
struct GraphOf<R> {
  using native_graph = typename R::native_graph;
};

}  // namespace detail
}  // namespace msstream
