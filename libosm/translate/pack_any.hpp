// Packs a message into an Any with deterministic serialization. Any::PackFrom ignores that setting,
// so equal values would give different bytes.
#pragma once

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

namespace osm::inline v1::translate {

inline std::string deterministic_bytes(const google::protobuf::Message& message) {
  std::string bytes;
  bytes.reserve(message.ByteSizeLong());  // a string that grows leaves copies, of keys too
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&out);
  }  // flushed
  return bytes;
}

inline google::protobuf::Any pack_any(const google::protobuf::Message& message) {
  google::protobuf::Any any;
  any.set_type_url("type.googleapis.com/" + message.GetTypeName());
  any.set_value(deterministic_bytes(message));
  return any;
}

inline void set_milliseconds(google::protobuf::Duration& out, std::int64_t milliseconds) {
  out.set_seconds(milliseconds / 1000);
  out.set_nanos(static_cast<int>(milliseconds % 1000) * 1'000'000);
}

// Sets the name and the configuration of a filter, a log or another extension.
template <class Extension>
void set_extension(Extension& out, const std::string& name,
                   const google::protobuf::Message& configuration) {
  out.set_name(name);
  *out.mutable_typed_config() = pack_any(configuration);
}

}  // namespace osm::inline v1::translate
