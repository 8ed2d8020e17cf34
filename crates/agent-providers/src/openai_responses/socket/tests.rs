//! Calls over WebSocket.
