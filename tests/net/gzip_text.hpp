// Text as a server compresses it.
#pragma once

#include <boost/beast/zlib/deflate_stream.hpp>
#include <boost/crc.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace osm::inline v1::net {

inline std::string gzip_text(std::string_view text) {
  namespace zlib = boost::beast::zlib;
  zlib::deflate_stream deflater;
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  const std::size_t header = out.size();
  out.resize(header + deflater.upper_bound(text.size()) + 64);
  zlib::z_params step;
  step.next_in = text.data();
  step.avail_in = text.size();
  step.next_out = out.data() + header;
  step.avail_out = out.size() - header;
  boost::system::error_code fault;
  deflater.write(step, zlib::Flush::finish, fault);
  out.resize(header + step.total_out);
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  for (const std::uint32_t number : {crc.checksum(), static_cast<std::uint32_t>(text.size())})
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(number >> shift & 0xff);
  return out;
}

}  // namespace osm::inline v1::net
