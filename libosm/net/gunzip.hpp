// Decompresses gzip (RFC 1952): one member, without optional header fields.
#pragma once

#include <array>
#include <boost/beast/zlib/inflate_stream.hpp>
#include <boost/crc.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/result.hpp"

namespace osm::inline v1::net {

// Not thread-safe. Its memory does not grow.
class Gunzip {
 public:
  using OnData = std::function<bool(std::string_view)>;

  // The content may have `max_bytes`.
  explicit Gunzip(std::size_t max_bytes) : max_bytes_(max_bytes), piece_(kPiece) {}

  // Calls `on_data` with the content, in pieces of at most 64 KiB; `on_data` returns true to
  // continue. Failure: kInvalidSyntax, kTooLarge. It cannot be used afterwards.
  Status feed(std::string_view data, const OnData& on_data);
  // After the last byte. Failure: kInvalidSyntax if some of it is missing.
  Status finish() const;

 private:
  static constexpr std::size_t kPiece = 64 * 1024;
  static constexpr std::size_t kHeader = 10;
  static constexpr std::size_t kTrailer = 8;

  // Moves bytes of `data` to `frame_` until that has `size`. Result: true if it has.
  bool gather(std::string_view& data, std::size_t size);
  Status check_header() const;
  Status check_trailer() const;

  enum class Place { kHeader, kContent, kTrailer, kEnd };

  const std::size_t max_bytes_;
  Place place_ = Place::kHeader;
  std::string frame_;  // header or trailer, as far as it is there
  boost::beast::zlib::inflate_stream inflater_;
  boost::crc_32_type crc_;
  std::size_t written_ = 0;
  std::vector<char> piece_;
};

}  // namespace osm::inline v1::net
