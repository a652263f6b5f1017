// The part of TensorBoard's event files that Ripieno writes; internal to report/. The format: records (length, masked
// CRC-32C of it, data, masked CRC-32C of that; tensorflow/core/lib/io/record_writer.cc) of Event messages in protocol
// buffers (tensorboard/compat/proto/event.proto, summary.proto).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ripieno::report::event_file {

/// Protocol buffers: a field is its number and wire type, then its value. A field of bytes is text or a message.
std::string field(int number, const std::string& bytes);
std::string field(int number, double value);
std::string field(int number, float value);
std::string field(int number, std::uint64_t value);

/// The first record of every file.
std::string beginning(double wall_time);

using Scalars = std::vector<std::pair<std::string, double>>;
/// Event{wall_time = 1, step = 2, summary = 5{value = 1{tag = 1, simple_value = 2}}}; leaves out values that are not
/// finite.
std::string scalars(double wall_time, std::uint64_t step, const Scalars& values);

/// A plugin's data: Event{wall_time = 1, summary = 5{value = 1{tag = 1, metadata = 9{plugin_data = 1{name = 1, content
/// = 2}}}}}
std::string plugin_data(double wall_time, const std::string& tag, const std::string& plugin,
                        const std::string& content);

}  // namespace ripieno::report::event_file
