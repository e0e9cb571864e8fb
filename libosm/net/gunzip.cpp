#include "net/gunzip.hpp"

#include <algorithm>

namespace osm::inline v1::net {
namespace {

namespace zlib = boost::beast::zlib;

Error damaged() { return {ErrorCode::kInvalidSyntax, "the compressed answer is damaged"}; }

std::uint32_t number_at(std::string_view frame, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 4; i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(frame[at + i]);
  return number;
}

}  // namespace

Status Gunzip::feed(std::string_view data, const OnData& on_data) {
  if (place_ == Place::kHeader) {
    if (!gather(data, kHeader)) return {};
    OSM_TRY(check_header());
    frame_.clear();
    place_ = Place::kContent;
  }
  while (place_ == Place::kContent && !data.empty()) {
    zlib::z_params step;
    step.next_in = data.data();
    step.avail_in = data.size();
    step.next_out = piece_.data();
    step.avail_out = piece_.size();
    boost::system::error_code fault;
    inflater_.write(step, zlib::Flush::sync, fault);
    if (fault && fault != zlib::error::end_of_stream && fault != zlib::error::need_buffers)
      return damaged();
    const std::size_t size = piece_.size() - step.avail_out;
    if (size == 0 && step.avail_in == data.size() && !fault) return damaged();  // no progress
    data.remove_prefix(data.size() - step.avail_in);
    if (size > max_bytes_ - written_)
      return Error{ErrorCode::kTooLarge, "the compressed answer holds more than " +
                                             std::to_string(max_bytes_) + " bytes"};
    written_ += size;
    crc_.process_bytes(piece_.data(), size);
    if (fault == zlib::error::end_of_stream) place_ = Place::kTrailer;
    if (size > 0 && !on_data({piece_.data(), size})) return {};
    if (fault == zlib::error::need_buffers && size == 0) break;
  }
  if (place_ == Place::kTrailer && gather(data, kTrailer)) {
    OSM_TRY(check_trailer());
    place_ = Place::kEnd;
  }
  return place_ == Place::kEnd && !data.empty() ? Status(damaged()) : Status();
}

Status Gunzip::finish() const { return place_ == Place::kEnd ? Status() : Status(damaged()); }

bool Gunzip::gather(std::string_view& data, std::size_t size) {
  const std::size_t part = std::min(size - frame_.size(), data.size());
  frame_.append(data.substr(0, part));
  data.remove_prefix(part);
  return frame_.size() == size;
}

Status Gunzip::check_header() const {
  if (!frame_.starts_with("\x1f\x8b\x08")) return damaged();
  if (frame_[3] != 0)
    return Error{ErrorCode::kInvalidSyntax,
                 "the compressed answer has optional header fields, which are not supported"};
  return {};
}

Status Gunzip::check_trailer() const {
  const bool same = number_at(frame_, 0) == crc_.checksum() &&
                    number_at(frame_, 4) == static_cast<std::uint32_t>(written_);
  return same ? Status() : Status(damaged());
}

}  // namespace osm::inline v1::net
