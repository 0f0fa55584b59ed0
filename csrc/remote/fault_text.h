// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "remote/object_store.h"

namespace torch_distinput {

/// `text` cut to 200 bytes, with a space for each that is not printable ASCII: what a server says is shown to
/// people, who may trust their terminal.
std::string plain_text(std::string_view text);

/// The number that a request has in the logs of the service.
std::string request_id(const HttpHead& head);

/// Whether a code of an error says that there is too much to do, or that credentials are too old.
bool says_throttled(std::string_view code);
bool says_expired(std::string_view code);

/// The fault of an XML body with elements Code and Message, as S3, GCS and Azure write it.
ServiceFault xml_fault(const HttpHead& head, std::string_view body);

}  // namespace torch_distinput
