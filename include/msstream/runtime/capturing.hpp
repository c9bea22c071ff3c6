// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <concepts>

namespace msstream {

/// A runtime that can keep what streams are given, instead of running it, as a graph that is then
/// launched as one piece of work, any number of times.
///
/// - begin_capture: from here on the stream is captured, the origin of the capture. A stream that
/// waits for an event which was recorded on a captured stream is captured, too. Waits between
/// captured streams become the graph's order; nothing else does. Other streams, on this thread and
/// on others, go on, and all calls that are not about captured streams and their events may be made
/// meanwhile.
/// - What a captured stream cannot do throws, and the capture can then only be ended: to wait for
/// an event of outside, to be waited for from outside, to be asked or waited for by the host.
/// - is_capture_sound: whether the capture that the stream is part of can still become a graph.
/// - end_capture: of the origin, which must follow all other captured streams' work. Makes the
/// graph, or throws; either way no stream is captured any more.
/// - abandon_capture: ends it, however far it is, and makes no graph.
/// - launch_graph: the stream's next work is that of the graph. Two launches of one graph must be
/// ordered one after the other, on the host as on the device.
/// - destroy_graph: all its launches must be over.
///
/// A closure of call_host that was captured runs at each launch, and goes with the graph.
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

/// R::native_graph where there is one.
template <Runtime R>
struct GraphOf {};
template <CapturingRuntime R>
struct GraphOf<R> {
  using native_graph = typename R::native_graph;
};

}  // namespace detail
}  // namespace msstream
