//! Media that plugins read: kept by the host, handed out as handles.

use crate::CallError;
use crate::bindings::base::whet::plugin::types::{Host, HostMedia as MediaFunctions};
use crate::state::CallState;
use wasmtime::component::Resource;
use whet_trajectory::Media;

/// An image, sound or video in the host's table of the call.
pub struct HostMedia(pub(crate) Media);

impl Host for CallState {}

impl MediaFunctions for CallState {
    fn new(&mut self, mime: String, data: Vec<u8>) -> wasmtime::Result<Resource<HostMedia>> {
        if self.media_made >= self.shared.limits.media {
            return Err(wasmtime::Error::new(CallError::HandleLimit(self.shared.limits.media)));
        }
        self.media_made += 1;
        self.limiter.take_host_bytes(mime.len() + data.len())?;
        Ok(self.table.push(HostMedia(Media { mime, data: data.into() }))?)
    }

    fn mime(&mut self, media: Resource<HostMedia>) -> wasmtime::Result<String> {
        Ok(self.table.get(&media)?.0.mime.clone())
    }

    fn size(&mut self, media: Resource<HostMedia>) -> wasmtime::Result<u64> {
        Ok(self.table.get(&media)?.0.data.len() as u64)
    }

    fn read(&mut self, media: Resource<HostMedia>, offset: u64, length: u32) -> wasmtime::Result<Vec<u8>> {
        let data = &self.table.get(&media)?.0.data;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
        let end = start.saturating_add(length as usize).min(data.len());
        Ok(data[start..end].to_vec())
    }

    fn drop(&mut self, media: Resource<HostMedia>) -> wasmtime::Result<()> {
        self.table.delete(media)?;
        Ok(())
    }
}
