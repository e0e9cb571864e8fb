#include "ads/proxy_stream.hpp"

namespace osm::inline v1::ads {

CloseCode close_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kWrongCertificateKind:
    case ErrorCode::kIdentityMismatch:
    case ErrorCode::kPermissionDenied:
      return CloseCode::kPermissionDenied;
    case ErrorCode::kCertificateExpired:
    case ErrorCode::kInvalidCertificate:
      return CloseCode::kUnauthenticated;
    case ErrorCode::kInvalidArgument:
      return CloseCode::kInvalidArgument;
    default:
      return CloseCode::kUnavailable;
  }
}

}  // namespace osm::inline v1::ads
