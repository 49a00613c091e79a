// The names of protocols, as users write them.
#include "causality/protocol/protocols.h"

namespace cairn::causality {

std::string_view name(ProtocolKind kind) {
    switch (kind) {
        case ProtocolKind::uncoordinated:
            return "uncoordinated";
        case ProtocolKind::bcs:
            return "bcs";
        case ProtocolKind::bcs_sent:
            return "bcs-sent";
        case ProtocolKind::russell:
            return "russell";
        case ProtocolKind::fdas:
            return "fdas";
        case ProtocolKind::bhmr:
            return "bhmr";
        case ProtocolKind::logging:
            return "logging";
    }
    return "unknown";
}

std::optional<ProtocolKind> protocol_named(std::string_view name_of_it) {
    for (const ProtocolKind kind : every_protocol)
        if (name(kind) == name_of_it) return kind;
    return std::nullopt;
}

std::unique_ptr<Protocol> make_protocol(ProtocolKind kind, Process self, Process processes,
                                        Encoding encoding) {
    switch (kind) {
        case ProtocolKind::uncoordinated:
            return std::make_unique<Uncoordinated>(self, processes);
        case ProtocolKind::bcs:
            return std::make_unique<IndexProtocol>(self, processes, false);
        case ProtocolKind::bcs_sent:
            return std::make_unique<IndexProtocol>(self, processes, true);
        case ProtocolKind::russell:
            return std::make_unique<Russell>(self, processes);
        case ProtocolKind::fdas:
            return std::make_unique<Fdas>(self, processes, encoding);
        case ProtocolKind::bhmr:
            return std::make_unique<Bhmr>(self, processes, encoding);
        case ProtocolKind::logging:
            return std::make_unique<SenderLogging>(self, processes, encoding);
    }
    return nullptr;
}

}  // namespace cairn::causality
