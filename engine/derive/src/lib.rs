//! `#[derive(State)]`: channels from the fields of a struct.
//!
//! Documented where users meet it, at `superstep::State`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, Ident, Result, Type, parse_macro_input,
};

/// Makes a struct a typed view of channels: each field is a channel of its name, and gets a constant
/// [`Key`](../superstep_channels/struct.Key.html) in upper case.
///
/// | attribute | channel | an empty channel reads as |
/// |---|---|---|
/// | none | last value | an error; `None` for an `Option` |
/// | `#[or_default]` | last value | the type's default |
/// | `#[reduce(fold)]` | reduce | the type's default |
/// | `#[delta(fold)]` | delta | the type's default |
/// | `#[topic]` | topic | the empty list |
/// | `#[ephemeral]` | ephemeral | the type's default |
/// | `#[any]` | any value | the type's default |
/// | `#[untracked]` | untracked | the type's default |
///
/// `#[reduce(fold, update = U)]` and `#[delta(fold, update = U)]` name the type that is written
/// where it is not the type that is read.
///
/// The struct derives `Clone`, `Serialize` and `Deserialize` too.
///
/// As input a state writes every field, defaults included: last values are replaced, folds with one type take the
/// field as an update. A field with an `update` type cannot be an update: it *replaces* what is there, unless it is
/// its type's default, which leaves the channel alone (its type needs `PartialEq` for that). To write some
/// channels only, start with an `Update`: `thread.start(Update::new().put(Report::TOPIC, topic))`.
#[proc_macro_derive(
    State,
    attributes(or_default, reduce, delta, topic, ephemeral, any, untracked)
)]
pub fn derive_state(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let channels = channels(input)?;
    let name = &input.ident;
    if !input.generics.params.is_empty() {
        let message = "a state has no type parameters: its channels are stored under fixed types";
        return Err(Error::new(input.generics.span(), message));
    }
    let keys = channels.iter().map(Channel::key);
    let constants = channels
        .iter()
        .map(|channel| &channel.constant)
        .collect::<Vec<_>>();
    let fields = channels
        .iter()
        .map(|channel| &channel.field)
        .collect::<Vec<_>>();
    let reads = channels.iter().map(Channel::read);
    let writes = channels.iter().map(|channel| channel.write(name));
    // Full paths: nothing that the user imports or calls by the same name can get in the way.
    Ok(quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #name {
            #(#keys)*
        }

        #[automatically_derived]
        impl ::superstep::Input for #name {
            fn schema() -> ::superstep::Schema {
                ::superstep::Schema::Channels(::std::vec![#(Self::#constants.spec()),*])
            }

            fn read(
                view: &::superstep::View<'_>,
            ) -> ::core::result::Result<Self, ::superstep::ReadError> {
                ::core::result::Result::Ok(Self { #(#fields: #reads),* })
            }

            fn payload_type() -> ::superstep::channels::Type {
                ::superstep::channels::Type::of::<Self>()
            }

            fn from_payload(
                payload: ::superstep::channels::Value,
                node: &::superstep::channels::Name,
            ) -> ::core::result::Result<Self, ::superstep::ReadError> {
                ::superstep::payload_as(payload, node)
            }
        }

        #[automatically_derived]
        impl ::superstep::Reads for #name {}

        #[automatically_derived]
        impl ::superstep::State for #name {}

        #[automatically_derived]
        impl ::core::convert::From<#name> for ::superstep::Update {
            fn from(state: #name) -> Self {
                let update = ::superstep::Update::new();
                #(let update = #writes;)*
                update
            }
        }
    })
}

/// A field and the channel it stands for.
struct Channel {
    field: Ident,
    constant: Ident,
    value: Type,
    rule: Rule,
    docs: Vec<Attribute>,
}

enum Rule {
    /// A constructor of `Key`, and whether an empty channel reads as the type's default.
    Plain { constructor: Ident, default: bool },
    /// The same for a fold, with the type of an update where it is not the value's.
    Fold {
        constructor: Ident,
        fold: syn::Path,
        update: Option<Box<Type>>,
    },
}

fn channels(input: &DeriveInput) -> Result<Vec<Channel>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.span(),
            "`State` is for structs: each field is a channel",
        ));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(
            input.span(),
            "`State` needs named fields: a field's name is its channel's",
        ));
    };
    fields.named.iter().map(channel).collect()
}

fn channel(field: &Field) -> Result<Channel> {
    let name = field
        .ident
        .clone()
        .unwrap_or_else(|| Ident::new("_", Span::call_site()));
    let plain = name.to_string();
    let plain = plain.strip_prefix("r#").unwrap_or(&plain);
    Ok(Channel {
        constant: format_ident!("{}", plain.to_uppercase(), span = name.span()),
        field: name,
        value: field.ty.clone(),
        rule: rule(field)?,
        docs: field
            .attrs
            .iter()
            .filter(|attr| attr.path().is_ident("doc"))
            .cloned()
            .collect(),
    })
}

const RULES: [&str; 7] = [
    "or_default",
    "reduce",
    "delta",
    "topic",
    "ephemeral",
    "any",
    "untracked",
];

fn rule(field: &Field) -> Result<Rule> {
    let known = |attr: &&Attribute| RULES.iter().any(|rule| attr.path().is_ident(rule));
    let mut rules = field.attrs.iter().filter(known);
    let Some(attr) = rules.next() else {
        return Ok(Rule::Plain {
            constructor: ident("last"),
            default: is_option(&field.ty),
        });
    };
    if let Some(second) = rules.next() {
        return Err(Error::new(second.span(), "a channel has one rule"));
    }
    let constructor = attr.path().require_ident()?.clone();
    if constructor == "reduce" || constructor == "delta" {
        let (fold, update) = attr.parse_args_with(fold_arguments)?;
        return Ok(Rule::Fold {
            constructor,
            fold,
            update: update.map(Box::new),
        });
    }
    attr.meta.require_path_only()?;
    let last = constructor == "or_default";
    let constructor = if last { ident("last") } else { constructor };
    Ok(Rule::Plain {
        constructor,
        default: true,
    })
}

/// `fold` or `fold, update = Type`.
fn fold_arguments(input: syn::parse::ParseStream<'_>) -> Result<(syn::Path, Option<Type>)> {
    let fold = input.parse()?;
    if input.is_empty() {
        return Ok((fold, None));
    }
    input.parse::<syn::Token![,]>()?;
    let name: Ident = input.parse()?;
    if name != "update" {
        return Err(Error::new(name.span(), "expected `update = Type`"));
    }
    input.parse::<syn::Token![=]>()?;
    Ok((fold, Some(input.parse()?)))
}

fn ident(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}

fn is_option(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path
        .segments
        .last()
        .is_some_and(|segment| segment.ident == "Option")
}

impl Channel {
    fn key(&self) -> TokenStream {
        let Channel {
            field,
            constant,
            value,
            docs,
            ..
        } = self;
        let name = field.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name);
        let note = format!("The channel `{name}`.");
        let docs = if docs.is_empty() {
            quote!(#[doc = #note])
        } else {
            quote!(#(#docs)*)
        };
        match &self.rule {
            Rule::Plain { constructor, .. } => quote! {
                #docs
                pub const #constant: ::superstep::channels::Key<#value> =
                    ::superstep::channels::Key::#constructor(#name);
            },
            Rule::Fold {
                constructor,
                fold,
                update,
            } => {
                let update = update.as_deref().unwrap_or(value);
                quote! {
                    #docs
                    pub const #constant: ::superstep::channels::Key<#value, #update> =
                        ::superstep::channels::Key::#constructor(#name, #fold);
                }
            }
        }
    }

    fn read(&self) -> TokenStream {
        let constant = &self.constant;
        match &self.rule {
            Rule::Plain { default: false, .. } => quote!(view.get(Self::#constant)?),
            _ => quote!(view.get_or_default(Self::#constant)?),
        }
    }

    /// How the field goes into the input. A value that is no update of its channel is the channel's new value,
    /// unless it is the type's default: then the field says nothing, and what earlier runs gathered stays.
    fn write(&self, owner: &Ident) -> TokenStream {
        let Channel {
            field,
            constant,
            value,
            ..
        } = self;
        let state = quote!(state.#field);
        match &self.rule {
            Rule::Fold {
                update: Some(_), ..
            } => {
                quote!(if #state == <#value as ::core::default::Default>::default() {
                    update
                } else {
                    update.overwrite(#owner::#constant, #state)
                })
            }
            _ => quote!(update.put(#owner::#constant, #state)),
        }
    }
}
